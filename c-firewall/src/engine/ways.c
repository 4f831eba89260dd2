// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/ways.h"

#include <string.h>

#include "engine/fields.h"
#include "engine/join.h"
#include "engine/matches.h"
#include "engine/rule.h"
#include "engine/set.h"
#include "engine/statement.h"

static const struct set_target NOWHERE = {.verdict = POLICY_CONTINUE};

/// Ends the evaluation by the settings for the unknown values that were read.
static void end_open(struct ways *ways, struct rule_read read, bool open) {
    const bool by_names = ways->waits && read.names && (!read.beyond || ways->truncated_open);
    struct decide_outcome *outcome = ways->walk->outcome;

    outcome->undecidable = read.beyond;
    outcome->undecided = read.names;
    outcome->reject = (struct policy_reject){0};
    outcome->verdict = open ? VERDICT_ACCEPT : VERDICT_DROP;
    outcome->by = by_names ? DECIDE_BY_UNDECIDED : DECIDE_BY_FAIL;
}

/// Resets the outcome of the previous way.
static void clear_end(struct ways *ways) {
    struct decide_outcome *outcome = ways->walk->outcome;

    outcome->verdict = VERDICT_DROP;
    outcome->reject = (struct policy_reject){0};
    outcome->undecidable = false;
    outcome->undecided = false;
}

/// Returns the target of a rule that holds; Continue for a verdict map whose key is unknown.
static struct set_target target(struct ways *ways, const struct compile_rule *rule) {
    const struct compile_op *op = &statement_ops(ways->walk, rule)[rule->count - 1];
    struct set_target target = NOWHERE;

    if (op->kind == COMPILE_VERDICT)
        target = (struct set_target){(enum policy_verdict)op->code, op->index};
    else if (op->kind == COMPILE_REJECT)
        target.verdict = POLICY_DROP;
    else if (op->kind == COMPILE_VMAP)
        statement_walk(ways->walk, op, &target);
    return target;
}

/// Returns the set of a rule's verdict map if its key is unknown; otherwise NULL.
static const struct set *leads(const struct ways *ways, const struct compile_rule *rule) {
    const struct compile_op *op = &statement_ops(ways->walk, rule)[rule->count - 1];
    enum match found;
    uint32_t element;

    if (op->kind != COMPILE_VMAP)
        return NULL;
    found = matches_find(ways->walk->compiled, &ways->walk->fields, op, &element);
    return found == MATCH_BEYOND || found == MATCH_UNKNOWN ? &ways->walk->compiled->sets[op->index]
                                                           : NULL;
}

/// Records that a way reaches the end of the current chain before the others do. Returns true if
/// the packet may be accepted from there on: a rule follows, or the policy of the base chain
/// accepts.
static bool note_return(struct ways *ways) {
    struct walk *walk = ways->walk;
    struct frame_mark *end = &ways->returned;
    uint32_t jump = walk->depth;
    bool accepts;

    while (jump > 0 && walk->stack[jump - 1].fork.is_goto)
        jump--;
    accepts = jump > 0 || frame_policy(walk->compiled, ways->base) == POLICY_ACCEPT;
    for (uint32_t i = jump > 0 ? jump - 1 : 0; i < walk->depth; i++) {
        struct frame_fork *fork = &walk->stack[i].fork;

        fork->joins = true;
        fork->aside |= fork->is_goto && accepts;
    }
    if (jump > 0)
        end = &walk->stack[jump - 1].fork.mark;
    *end = join_marks(&ways->joins, *end, rule_mark(ways));
    ways->returns |= jump == 0;
    return accepts;
}

/// Records that a way through the base chain accepts the packet.
static void note_accept(struct ways *ways) {
    ways->accepted = join_marks(&ways->joins, ways->accepted, rule_mark(ways));
    ways->accepts = true;
}

/// Enters a chain at its first rule.
static void enter(struct ways *ways, uint32_t chain) {
    if (ways->joins.is_choosing)
        frame_enter(ways->walk, chain);
    else
        frame_enter_newly(ways->walk, chain);
}

/// Records a possible target of a rule. Returns true if it is a chain, which is entered.
/// - next: index of the verdict map's next possible target, to be recorded after that chain; 0 =
///   none.
/// - past: mark on the way that does not lead there.
static bool note_lead(struct ways *ways, uint32_t rule, struct set_target lead, uint32_t next,
                      struct frame_mark past) {
    switch (lead.verdict) {
    case POLICY_ACCEPT:
        note_accept(ways);
        return false;
    case POLICY_DROP:
    case POLICY_CONTINUE:
        return false;
    case POLICY_RETURN:
        ways->aside |= note_return(ways);
        return false;
    case POLICY_JUMP:
    case POLICY_GOTO:
        break;
    }
    frame_remember(ways->walk, rule,
                   (struct frame_fork){.joins = true,
                                       .is_goto = lead.verdict == POLICY_GOTO,
                                       .aside = ways->aside,
                                       .next = next,
                                       .mark = past});
    ways->aside = true;
    ways->walk->way++;
    enter(ways, lead.chain);
    return true;
}

/// Records the possible targets of a rule's verdict map from index n on. Stops at the first target
/// that is a chain, and enters it.
static void note_leads(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                       uint32_t n) {
    const struct set *set = leads(ways, rule);

    for (; set && n < set->lead_count; n++)
        if (note_lead(ways, number, set->leads[n], n + 1, rule_mark(ways)))
            return;
}

/// Returns to the chain of a rule that led to another chain.
/// - came: true if a way reaches the end of that other chain.
static void resume(struct ways *ways, struct frame_waiting waiting, bool came) {
    const bool passes = came && waiting.fork.is_goto && note_return(ways);
    const struct frame_mark end =
        came && !waiting.fork.is_goto ? rule_mark(ways) : (struct frame_mark){0};

    rule_set_mark(ways, join_marks(&ways->joins, waiting.fork.mark, end));
    ways->aside = waiting.fork.aside || passes;
    frame_go_back(ways->walk, &waiting);
    if (waiting.fork.next > 0)
        note_leads(ways, waiting.rule, &ways->walk->compiled->rules[waiting.rule],
                   waiting.fork.next);
}

/// Records that ways have reached the end of the base chain, with a mark.
static void note_policy(struct ways *ways, struct frame_mark mark) {
    clear_end(ways);
    if (frame_end_by_policy(ways->walk, ways->base) == POLICY_ACCEPT) {
        ways->accepted = join_marks(&ways->joins, ways->accepted, mark);
        ways->accepts = true;
    }
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
static bool end_chain(struct ways *ways) {
    if (ways->walk->depth == 0) {
        note_policy(ways, join_marks(&ways->joins, ways->returned, rule_mark(ways)));
        return false;
    }
    resume(ways, ways->walk->stack[--ways->walk->depth], true);
    return true;
}

/// Ends a way within the current chain, and continues with another one. Returns false if there is
/// none.
static bool end_way(struct ways *ways) {
    while (ways->walk->depth > 0) {
        const struct frame_waiting waiting = ways->walk->stack[--ways->walk->depth];

        if (waiting.fork.joins) {
            resume(ways, waiting, false);
            return true;
        }
    }
    if (ways->returns)
        note_policy(ways, ways->returned);
    return false;
}

/// Ends a way by the verdict of a rule. Returns false if the base chain is finished.
static bool end_by(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                   enum policy_verdict verdict) {
    const struct compile_op *op = &statement_ops(ways->walk, rule)[rule->count - 1];
    struct set_target none = NOWHERE;

    clear_end(ways);
    frame_end_by_rule(ways->walk, verdict, number);
    if (op->kind == COMPILE_REJECT)
        statement_walk(ways->walk, op, &none);
    if (verdict == POLICY_ACCEPT)
        note_accept(ways);
    return end_way(ways);
}

/// Continues at the target of a rule that holds. Returns false if the base chain is finished.
static bool follow(struct ways *ways, uint32_t number, const struct compile_rule *rule) {
    const struct set_target leads_to = target(ways, rule);

    switch (leads_to.verdict) {
    case POLICY_CONTINUE:
        return true;
    case POLICY_ACCEPT:
    case POLICY_DROP:
        return end_by(ways, number, rule, leads_to.verdict);
    case POLICY_RETURN:
        return end_chain(ways);
    case POLICY_JUMP:
        frame_remember(ways->walk, number, (struct frame_fork){.aside = ways->aside});
        break;
    case POLICY_GOTO:
        break;
    }
    ways->walk->way++;
    enter(ways, leads_to.chain);
    return true;
}

/// Reports the current rule.
/// - may: true if it is reached on some ways only.
static void record(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                   enum rule_holds holds, bool may) {
    const struct set_target leads_to = target(ways, rule);

    statement_record(ways->walk, number, ways->statement, ways->why, &leads_to,
                     holds != RULE_HOLDS_NO && (may || holds != RULE_HOLDS_YES));
}

/// Records the possible targets of a rule that may hold, and continues after the rule, or in a
/// chain to which it may lead.
static void go_past(struct ways *ways, uint32_t number, const struct compile_rule *rule) {
    const struct set_target leads_to = target(ways, rule);
    const struct frame_mark past =
        ways->before.state == FRAME_MARK_NONE ? rule_mark(ways) : ways->before;

    if (leads_to.verdict == POLICY_CONTINUE) {
        rule_set_mark(ways, join_marks(&ways->joins, past, rule_mark(ways)));
        note_leads(ways, number, rule, 0);
    } else if (!note_lead(ways, number, leads_to, 0, past)) {
        rule_set_mark(ways, past);
    }
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - is_new: true if it has not been reported.
static bool walk_rule(struct ways *ways, uint32_t number, uint32_t from, bool is_new) {
    const struct compile_rule *rule = &ways->walk->compiled->rules[number];
    const bool aside = rule_is_aside(ways);
    struct rule_read read = {0};
    const enum rule_holds holds = rule_evaluate(ways, rule, from, &read);

    if (ways->walk->recorder && is_new && !ways->joins.is_choosing)
        record(ways, number, rule, holds, aside);
    switch (holds) {
    case RULE_HOLDS_NO:
        rule_set_mark(ways, join_marks(&ways->joins, ways->before, rule_mark(ways)));
        return true;
    case RULE_HOLDS_YES:
        return follow(ways, number, rule);
    case RULE_HOLDS_CLOSED:
        end_open(ways, read, false);
        return end_way(ways);
    case RULE_HOLDS_MAY:
        break;
    }
    ways->read.beyond |= read.beyond;
    ways->read.names |= read.names;
    go_past(ways, number, rule);
    return true;
}

/// Evaluates a base chain, or the rest of it. Returns true if it may accept.
/// - stuck: rule at which the previous walk has ended; FRAME_NO_RULE = the chain is entered.
static bool walk_base(struct ways *ways, uint32_t base, uint32_t stuck) {
    bool goes_on = true;

    ways->base = base;
    ways->accepts = false;
    ways->returns = false;
    ways->aside = false;
    ways->accepted = ways->returned = (struct frame_mark){0};
    if (stuck != FRAME_NO_RULE) {
        goes_on = walk_rule(ways, stuck, ways->walk->stuck, false);
    } else {
        ways->walk->depth = 0;
        ways->walk->way = 0;
        enter(ways, base);
    }
    while (goes_on) {
        const uint32_t rule = frame_next_rule(&ways->walk->frame);

        goes_on = rule == FRAME_NO_RULE ? end_chain(ways) : walk_rule(ways, rule, 0, true);
    }
    rule_set_mark(ways, ways->accepted);
    return ways->accepts;
}

/// Place at which the evaluation of several ways begins.
struct start {
    struct frame frame;
    uint32_t depth; // number of entries in stack
    struct frame_waiting stack[POLICY_WAY_MAX];
    // Rule of which it is unknown whether it holds, and its first unknown statement.
    uint32_t rule, stuck;
    uint32_t way;
    struct frame_mark mark;
};

/// Evaluates base chains from a place on. Returns true if each has a way that accepts the packet.
/// - bases: current base chain and the later ones.
static bool walk_bases(struct ways *ways, uint32_t rule, struct compile_bases bases) {
    uint32_t stuck = rule;

    clear_end(ways);
    for (uint32_t i = 0; i < bases.count; i++) {
        if (!walk_base(ways, ways->walk->compiled->bases[bases.first + i], stuck))
            return false;
        stuck = FRAME_NO_RULE;
    }
    return true;
}

/// Returns true if the packet is accepted with one of the marks at each join point; otherwise the
/// outcome is that of the last choice.
static bool is_accepted(struct ways *ways, const struct start *start, struct compile_bases bases) {
    struct walk *walk = ways->walk;

    join_choose(&ways->joins);
    do {
        walk->frame = start->frame;
        walk->depth = start->depth;
        memcpy(walk->stack, start->stack, start->depth * sizeof *start->stack);
        walk->stuck = start->stuck;
        walk->way = start->way;
        rule_set_mark(ways, start->mark);
        if (walk_bases(ways, start->rule, bases))
            return true;
    } while (join_choose_again(&ways->joins));
    return false;
}

/// Evaluates base chains whose rules read the mark, from the current place on. Returns true if the
/// packet is accepted.
/// - bases: current base chain and the later ones.
__attribute__((noinline)) static bool walk_marked(struct ways *ways, struct compile_bases bases) {
    const struct walk *walk = ways->walk;
    struct rule_read read;
    struct start start;
    bool accepts;

    start.frame = walk->frame;
    start.depth = walk->depth;
    memcpy(start.stack, walk->stack, walk->depth * sizeof *walk->stack);
    start.rule = walk->outcome->rule;
    start.stuck = walk->stuck;
    start.way = walk->way;
    start.mark = rule_mark(ways);
    if (!walk_bases(ways, start.rule, bases))
        return false;
    read = ways->read;
    accepts = ways->joins.count == 0 || is_accepted(ways, &start, bases);
    ways->read = read;
    return accepts;
}

void ways_go_on(struct walk *walk, const struct decide_settings *settings,
                struct compile_bases bases) {
    const struct names *names = walk->input->names;
    const bool waits = names && names->state == NAMES_UNDECIDED;
    struct ways ways = {
        .walk = walk,
        .truncated_open = settings->truncated_open,
        .unknown_open =
            waits ? settings->undecided_verdict == VERDICT_ACCEPT : settings->unknown_open,
        .waits = waits,
    };
    const bool reads_mark = walk->compiled->wanted & FIELDS_BIT(POLICY_META_MARK);

    if (reads_mark ? walk_marked(&ways, bases) : walk_bases(&ways, walk->outcome->rule, bases))
        end_open(&ways, ways.read, true);
}
