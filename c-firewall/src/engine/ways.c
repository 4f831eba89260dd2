// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/ways.h"

#include "engine/fields.h"
#include "engine/marks.h"
#include "engine/matches.h"
#include "engine/rule.h"
#include "engine/set.h"
#include "engine/statement.h"

static const struct set_target NOWHERE = {.verdict = POLICY_CONTINUE};

/// Sets the outcome for a packet whose verdict depends on unknown values: --fail or --undecided
/// decides.
/// - read: kinds of the unknown values.
/// - open: true to accept the packet, false to drop it.
static void end_open(struct ways *ways, struct rule_read read, bool open) {
    const bool by_names = ways->waits && read.names && (!read.beyond || ways->truncated_open);
    struct decide_outcome *outcome = ways->walk->outcome;

    outcome->undecidable = read.beyond;
    outcome->undecided = read.names;
    outcome->reject = (struct policy_reject){0};
    outcome->verdict = open ? VERDICT_ACCEPT : VERDICT_DROP;
    outcome->by = by_names ? DECIDE_BY_UNDECIDED : DECIDE_BY_FAIL;
}

/// Resets the verdict, the rejection and the flags of unknown values that the previous way has
/// left.
static void clear_end(struct ways *ways) {
    struct decide_outcome *outcome = ways->walk->outcome;

    outcome->verdict = VERDICT_DROP;
    outcome->reject = (struct policy_reject){0};
    outcome->undecidable = false;
    outcome->undecided = false;
}

/// Returns the target of a rule that holds; Continue for a rule without a verdict, and for a
/// verdict map whose key is unknown or has several marks.
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

/// Returns the set of a rule's verdict map if its key is unknown or has several marks; otherwise
/// NULL.
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

/// Returns those of the marks with which the target `lead` may be the result of a rule's verdict
/// map.
static mark_set marks_to(struct ways *ways, const struct compile_rule *rule, mark_set marks,
                         struct set_target lead) {
    const struct compiled *compiled = ways->walk->compiled;
    const struct compile_op *op = &statement_ops(ways->walk, rule)[rule->count - 1];
    mark_set left = marks, leading = MARKS_NONE;

    while (left != MARKS_NONE) {
        const mark_set part = rule_together(ways, op, left);
        const struct set_target *leads_to;
        uint32_t element;
        enum match found;

        left &= ~part;
        rule_set_marks(ways, part);
        found = matches_find(compiled, &ways->walk->fields, op, &element);
        leads_to = found == MATCH_FOUND ? &compiled->sets[op->index].targets[element] : &lead;
        if (found == MATCH_MISSING || found == MATCH_NOT)
            continue;
        if (leads_to->verdict == lead.verdict && leads_to->chain == lead.chain)
            leading |= part;
    }
    return leading;
}

/// Records that a way reaches the end of the current chain, while other ways are still to be
/// evaluated. Returns true if the packet may be accepted from there on: there is a jump to return
/// to, or the policy of the base chain accepts.
static bool note_return(struct ways *ways) {
    struct walk *walk = ways->walk;
    mark_set *end = &ways->returned;
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
        end = &walk->stack[jump - 1].fork.marks;
    *end |= ways->marks;
    ways->returns |= jump == 0;
    return accepts;
}

/// Records that a way through the base chain accepts the packet.
static void note_accept(struct ways *ways) {
    ways->accepted |= ways->marks;
    ways->accepts = true;
}

/// Records a possible target of a rule. Returns true if it is a chain, which is entered.
/// - fork: next target and marks of the rule.
static bool note_lead(struct ways *ways, uint32_t rule, struct set_target lead,
                      struct frame_fork fork) {
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
    fork.joins = true;
    fork.is_goto = lead.verdict == POLICY_GOTO;
    fork.aside = ways->aside;
    frame_remember(ways->walk, rule, fork);
    ways->aside = true;
    ways->walk->way++;
    frame_enter_newly(ways->walk, lead.chain);
    return true;
}

/// Records the possible targets of a rule's verdict map from fork.next on. Stops at the first
/// target that is a chain, and enters it. After the last target the marks are those on the ways
/// that continue after the rule.
static void note_leads(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                       struct frame_fork fork) {
    const struct set *set;

    rule_set_marks(ways, fork.held);
    set = leads(ways, rule);
    while (set && fork.next < set->lead_count) {
        const struct set_target lead = set->leads[fork.next];
        const mark_set marks = marks_to(ways, rule, fork.held, lead);

        rule_set_marks(ways, marks);
        fork.next++;
        if (lead.verdict == POLICY_CONTINUE)
            fork.marks |= marks;
        else if (marks != MARKS_NONE && note_lead(ways, number, lead, fork))
            return;
    }
    rule_set_marks(ways, fork.marks);
    if (fork.marks == MARKS_NONE) {
        clear_end(ways);
        frame_end_by_rule(ways->walk, POLICY_DROP, number);
    }
}

/// Returns to the chain of a rule that led to another chain. Records the remaining targets of the
/// rule's verdict map.
/// - came: true if a way reaches the end of the other chain.
static void resume(struct ways *ways, struct frame_waiting waiting, bool came) {
    struct frame_fork fork = waiting.fork;
    const bool passes = came && fork.is_goto && note_return(ways);

    if (came && !fork.is_goto)
        fork.marks |= ways->marks;
    rule_set_marks(ways, fork.marks);
    ways->aside = fork.aside || passes;
    frame_go_back(ways->walk, &waiting);
    if (fork.next > 0)
        note_leads(ways, waiting.rule, &ways->walk->compiled->rules[waiting.rule], fork);
}

/// Records the base chain's policy as the result of the ways with these marks.
static void note_policy(struct ways *ways, mark_set marks) {
    clear_end(ways);
    if (frame_end_by_policy(ways->walk, ways->base) == POLICY_ACCEPT) {
        ways->accepted |= marks;
        ways->accepts = true;
    }
}

/// Ends a way (a path through the rules) before its chain ends, and continues with another way.
/// Returns false if there is no other way.
static bool end_way(struct ways *ways) {
    while (ways->walk->depth > 0) {
        const struct frame_waiting waiting = ways->walk->stack[--ways->walk->depth];

        if (waiting.fork.joins) {
            resume(ways, waiting, false);
            if (ways->marks != MARKS_NONE)
                return true;
        }
    }
    if (ways->returns)
        note_policy(ways, ways->returned);
    return false;
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
static bool end_chain(struct ways *ways) {
    if (ways->walk->depth == 0) {
        note_policy(ways, ways->returned | ways->marks);
        return false;
    }
    resume(ways, ways->walk->stack[--ways->walk->depth], true);
    return ways->marks != MARKS_NONE || end_way(ways);
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

/// Records the possible targets of a rule that may hold, and continues after the rule, or in a
/// chain to which it may lead. Returns false if the base chain is finished.
static bool go_past(struct ways *ways, uint32_t number, const struct compile_rule *rule) {
    const struct set_target leads_to = target(ways, rule);
    const struct frame_fork fork = {.marks = ways->past | ways->fails, .held = ways->marks};

    if (leads_to.verdict != POLICY_CONTINUE) {
        if (!note_lead(ways, number, leads_to, fork))
            rule_set_marks(ways, fork.marks);
    } else if (!leads(ways, rule)) {
        rule_set_marks(ways, fork.marks | fork.held);
    } else {
        note_leads(ways, number, rule, fork);
    }
    return ways->marks != MARKS_NONE || end_way(ways);
}

/// Continues at the target of a rule that holds. Returns false if the base chain is finished.
static bool follow(struct ways *ways, uint32_t number, const struct compile_rule *rule) {
    const struct set_target leads_to = target(ways, rule);

    switch (leads_to.verdict) {
    case POLICY_CONTINUE:
        return !leads(ways, rule) || go_past(ways, number, rule);
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
    frame_enter_newly(ways->walk, leads_to.chain);
    return true;
}

/// Reports the current rule to the recorder.
/// - before: marks before the rule.
/// - may: true if the rule is reached on some ways only.
static void record(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                   enum rule_holds holds, mark_set before, bool may) {
    const struct set_target leads_to = target(ways, rule);
    const mark_set marks = ways->marks;

    if (ways->why == DECIDE_UNKNOWN)
        rule_set_marks(ways, before);
    statement_record(ways->walk, number, ways->statement, ways->why, &leads_to,
                     holds != RULE_HOLDS_NO && (may || holds != RULE_HOLDS_YES));
    rule_set_marks(ways, marks);
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - from: index of the statement in the rule.
/// - is_new: true if the rule has not been reported to the recorder.
static bool walk_rule(struct ways *ways, uint32_t number, uint32_t from, bool is_new) {
    const struct compile_rule *rule = &ways->walk->compiled->rules[number];
    const bool aside = rule_is_aside(ways);
    const mark_set before = ways->marks;
    struct rule_read read = {0};
    const enum rule_holds holds = rule_evaluate(ways, rule, from, &read);

    if (ways->walk->recorder && is_new)
        record(ways, number, rule, holds, before, aside);
    switch (holds) {
    case RULE_HOLDS_NO:
        rule_set_marks(ways, ways->past | ways->fails);
        return true;
    case RULE_HOLDS_CLOSED:
        if (ways->fails != MARKS_NONE) {
            rule_set_marks(ways, ways->fails);
            return true;
        }
        end_open(ways, read, false);
        return end_way(ways);
    case RULE_HOLDS_YES:
        return follow(ways, number, rule);
    case RULE_HOLDS_MAY:
        break;
    }
    ways->read.beyond |= read.beyond;
    ways->read.names |= read.names;
    return go_past(ways, number, rule);
}

/// Evaluates a base chain, or the rest of it. Returns true if a way through it accepts the packet.
/// - stuck: rule at which the previous walk has ended, and at which the evaluation continues;
///   FRAME_NO_RULE = it begins at the first rule of the chain.
static bool walk_base(struct ways *ways, uint32_t base, uint32_t stuck) {
    bool goes_on = true;

    ways->base = base;
    ways->accepts = false;
    ways->returns = false;
    ways->aside = false;
    ways->accepted = ways->returned = MARKS_NONE;
    if (stuck != FRAME_NO_RULE) {
        goes_on = walk_rule(ways, stuck, ways->walk->stuck, false);
    } else {
        ways->walk->depth = 0;
        ways->walk->way = 0;
        frame_enter_newly(ways->walk, base);
    }
    while (goes_on) {
        const uint32_t rule = frame_next_rule(&ways->walk->frame);

        goes_on = rule == FRAME_NO_RULE ? end_chain(ways) : walk_rule(ways, rule, 0, true);
    }
    rule_set_marks(ways, ways->accepted);
    return ways->accepts;
}

void ways_go_on(struct walk *walk, const struct decide_settings *settings,
                struct compile_bases bases) {
    const struct names *names = walk->input->names;
    const bool waits = names && names->state == NAMES_UNDECIDED;
    struct mark_values values;
    struct ways ways = {
        .values = &values,
        .walk = walk,
        .truncated_open = settings->truncated_open,
        .unknown_open =
            waits ? settings->undecided_verdict == VERDICT_ACCEPT : settings->unknown_open,
        .waits = waits,
    };
    uint32_t stuck = walk->outcome->rule;

    values.count = 0;
    ways.marks = marks_one(&values, walk->fields.narrow[POLICY_META_MARK]);
    clear_end(&ways);
    for (uint32_t i = 0; i < bases.count; i++) {
        if (!walk_base(&ways, walk->compiled->bases[bases.first + i], stuck))
            return;
        stuck = FRAME_NO_RULE;
    }
    end_open(&ways, ways.read, true);
}
