// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/ways.h"

#include "engine/fields.h"
#include "engine/matches.h"
#include "engine/set.h"
#include "engine/statement.h"

static const struct set_target NOWHERE = {.verdict = POLICY_CONTINUE};

/// Whether a rule holds.
enum holds {
    HOLDS_NO,
    HOLDS_MAY,
    HOLDS_YES,
    HOLDS_CLOSED, // the rule may hold, but a packet with these unknown values must not pass
};

/// Flags for the kinds of unknown values: true if the result of a rule depends on a value of this
/// kind.
struct read {
    bool beyond; // true for fields beyond the captured bytes
    bool names;
};

/// State of a walk along several ways.
struct ways {
    struct walk *walk;
    // Whether a packet may pass where a rule reads a field beyond the captured bytes, or an unknown
    // name.
    bool truncated_open;
    bool unknown_open;
    bool waits;    // true if the names may still arrive
    uint32_t base; // current base chain
    bool accepts;  // true if a way through the base chain accepts the packet
    bool returns;  // true if a way reaches the end of the base chain
    bool aside; // true until the current chain ends, if the packet may be accepted on another way
    // Mark on the ways that the base chain accepts, and on those that reach its end before the last
    // one.
    struct frame_mark accepted, returned;
    // Mark before the first statement that sets it only if the current rule holds.
    struct frame_mark before;
    struct read read; // unknown values that the rules so far have read
    // First statement of the current rule whose result is unknown, and the reason.
    uint32_t statement;
    enum decide_why why;
};

/// Returns true if the current effects would happen on some ways only.
static bool is_aside(const struct ways *ways) { return ways->aside || ways->accepts; }

/// Ends the evaluation by the settings for the unknown values that were read.
static void end_open(struct ways *ways, struct read read, bool open) {
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

/// Returns true if the --fail modes accept packets of which a rule reads these unknown values.
static bool is_open(const struct ways *ways, struct read read) {
    return (!read.beyond || ways->truncated_open) && (!read.names || ways->unknown_open);
}

/// Returns the mark on the current way.
static struct frame_mark mark(const struct ways *ways) {
    const struct fields *fields = &ways->walk->fields;

    if (!fields_is_present(fields, POLICY_META_MARK))
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    return (struct frame_mark){FRAME_MARK_KNOWN, fields->narrow[POLICY_META_MARK]};
}

/// Sets the mark on the current way, but not the packet's.
static void set_mark(struct ways *ways, struct frame_mark mark) {
    struct fields *fields = &ways->walk->fields;

    if (mark.state == FRAME_MARK_KNOWN) {
        fields->present |= FIELDS_BIT(POLICY_META_MARK);
        fields->narrow[POLICY_META_MARK] = mark.value;
        return;
    }
    fields->present &= ~FIELDS_BIT(POLICY_META_MARK);
    fields->unknown |= FIELDS_BIT(POLICY_META_MARK);
}

/// Sets the mark on the current way by a statement.
/// - may: true if the statement is executed only if the rule holds; then the mark before it is
/// stored.
static void change_mark(struct ways *ways, bool may, struct frame_mark to) {
    if (may && ways->before.state == FRAME_MARK_NONE)
        ways->before = mark(ways);
    set_mark(ways, to);
}

/// Records that it is unknown whether the current rule holds, because of one of its statements.
static void note_open(struct ways *ways, struct read *read, uint32_t statement, enum decide_why why,
                      uint64_t fields) {
    const struct fields *known = &ways->walk->fields;
    // An unknown mark was set by a rule on some ways; it is no unknown name.
    const uint64_t names = known->unknown & ~known->present & ~FIELDS_BIT(POLICY_META_MARK);

    if (ways->why == DECIDE_HELD) {
        ways->statement = statement;
        ways->why = why;
    }
    read->beyond |= why == DECIDE_BEYOND || (fields & known->beyond);
    read->names |= (fields & names) != 0;
}

/// Evaluates a map that sets the mark on some ways only. Returns the reason why the rule ends
/// there.
static enum decide_why mark_map(struct ways *ways, const struct compile_op *op, bool may) {
    const struct compiled *compiled = ways->walk->compiled;
    uint32_t element;
    const enum match found = matches_find(compiled, &ways->walk->fields, op, &element);

    if (found == MATCH_FOUND)
        change_mark(
            ways, may,
            (struct frame_mark){FRAME_MARK_KNOWN, compiled->sets[op->index].marks[element]});
    return matches_why_not(found);
}

/// Returns the mark after a statement that keeps some of its bits and toggles others.
static struct frame_mark changed_mark(const struct ways *ways, uint32_t keep, uint32_t toggle) {
    struct frame_mark changed = mark(ways);

    if (changed.state == FRAME_MARK_KNOWN || keep == 0)
        changed = (struct frame_mark){FRAME_MARK_KNOWN, (changed.value & keep) ^ toggle};
    return changed;
}

/// Executes a statement that is no verdict. Returns the reason why the rule ends there.
/// - may: true if the rule may hold; set by a limit or quota that may hold or not.
static enum decide_why walk_statement(struct ways *ways, const struct compile_op *op, bool *may) {
    const bool aside = *may || is_aside(ways);
    struct set_target none = NOWHERE;
    struct frame_mark changed;

    switch ((enum compile_kind)op->kind) {
    case COMPILE_COUNTER:
    case COMPILE_LOG:
        return aside ? DECIDE_HELD : statement_walk(ways->walk, op, &none);
    case COMPILE_LIMIT:
    case COMPILE_QUOTA:
        if (!aside)
            return statement_walk(ways->walk, op, &none);
        *may = true;
        return DECIDE_HELD;
    case COMPILE_MARK:
        changed = changed_mark(ways, op->mask, op->low);
        if (!aside)
            statement_walk(ways->walk, op, &none);
        change_mark(ways, *may, changed);
        return DECIDE_HELD;
    case COMPILE_MARK_MAP:
        return aside ? mark_map(ways, op, *may) : statement_walk(ways->walk, op, &none);
    default:
        return statement_walk(ways->walk, op, &none);
    }
}

/// Returns whether a rule holds that has read unknown values with which no packet may pass, before
/// a statement with an effect. It does not hold if the statement is a map of names that certainly
/// has no element for the packet.
static enum holds closed(struct ways *ways, const struct compile_op *op, uint32_t number) {
    const enum decide_why why = statement_look_up(ways->walk, op);

    if (why == DECIDE_HELD || why == DECIDE_BEYOND || why == DECIDE_UNKNOWN)
        return HOLDS_CLOSED;
    ways->statement = number;
    ways->why = why;
    return HOLDS_NO;
}

/// Returns whether a rule holds from a statement on; executes its effects.
/// - read: out: unknown values that decide it.
static enum holds try_rule(struct ways *ways, const struct compile_rule *rule, uint32_t from,
                           struct read *read) {
    const struct compile_op *ops = statement_ops(ways->walk, rule);
    const enum decide_why needs = statement_meets(ways->walk, rule->needs);
    bool may = needs == DECIDE_BEYOND;

    ways->statement = needs == DECIDE_HELD ? rule->count : 0;
    ways->why = needs;
    ways->before = (struct frame_mark){0};
    if (needs != DECIDE_HELD && needs != DECIDE_BEYOND)
        return HOLDS_NO;
    read->beyond |= may;
    for (uint32_t i = from; i < rule->count; i++) {
        enum decide_why why;

        if (ops[i].kind > COMPILE_LEARNED && !is_open(ways, *read))
            return closed(ways, &ops[i], i);
        if (ops[i].kind == COMPILE_VERDICT || ops[i].kind == COMPILE_REJECT)
            break;
        why = walk_statement(ways, &ops[i], &may);
        if (why == DECIDE_BEYOND || why == DECIDE_UNKNOWN) {
            may = true;
            note_open(ways, read, i, why, matches_looks_at(ways->walk->compiled, &ops[i]));
            if (ops[i].kind == COMPILE_MARK_MAP)
                change_mark(ways, true, (struct frame_mark){.state = FRAME_MARK_UNKNOWN});
        } else if (why != DECIDE_HELD) {
            ways->statement = i;
            ways->why = why;
            return HOLDS_NO;
        }
    }
    if (!is_open(ways, *read))
        return HOLDS_CLOSED;
    return may ? HOLDS_MAY : HOLDS_YES;
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
    *end = frame_join_marks(*end, mark(ways));
    ways->returns |= jump == 0;
    return accepts;
}

/// Records that a way through the base chain accepts the packet.
static void note_accept(struct ways *ways) {
    ways->accepted = frame_join_marks(ways->accepted, mark(ways));
    ways->accepts = true;
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
    frame_enter_newly(ways->walk, lead.chain);
    return true;
}

/// Records the possible targets of a rule's verdict map from index n on. Stops at the first target
/// that is a chain, and enters it.
static void note_leads(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                       uint32_t n) {
    const struct set *set = leads(ways, rule);

    for (; set && n < set->lead_count; n++)
        if (note_lead(ways, number, set->leads[n], n + 1, mark(ways)))
            return;
}

/// Returns to the chain of a rule that led to another chain.
/// - came: true if a way reaches the end of that other chain.
static void resume(struct ways *ways, struct frame_waiting waiting, bool came) {
    const bool passes = came && waiting.fork.is_goto && note_return(ways);
    const struct frame_mark end =
        came && !waiting.fork.is_goto ? mark(ways) : (struct frame_mark){0};

    set_mark(ways, frame_join_marks(waiting.fork.mark, end));
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
        ways->accepted = frame_join_marks(ways->accepted, mark);
        ways->accepts = true;
    }
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
static bool end_chain(struct ways *ways) {
    if (ways->walk->depth == 0) {
        note_policy(ways, frame_join_marks(ways->returned, mark(ways)));
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
    frame_enter_newly(ways->walk, leads_to.chain);
    return true;
}

/// Reports the current rule.
/// - may: true if it is reached on some ways only.
static void record(struct ways *ways, uint32_t number, const struct compile_rule *rule,
                   enum holds holds, bool may) {
    const struct set_target leads_to = target(ways, rule);

    statement_record(ways->walk, number, ways->statement, ways->why, &leads_to,
                     holds != HOLDS_NO && (may || holds != HOLDS_YES));
}

/// Records the possible targets of a rule that may hold, and continues after the rule, or in a
/// chain to which it may lead.
static void go_past(struct ways *ways, uint32_t number, const struct compile_rule *rule) {
    const struct set_target leads_to = target(ways, rule);
    const struct frame_mark past =
        ways->before.state == FRAME_MARK_NONE ? mark(ways) : ways->before;

    if (leads_to.verdict == POLICY_CONTINUE) {
        set_mark(ways, frame_join_marks(past, mark(ways)));
        note_leads(ways, number, rule, 0);
    } else if (!note_lead(ways, number, leads_to, 0, past)) {
        set_mark(ways, past);
    }
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - is_new: true if it has not been reported.
static bool walk_rule(struct ways *ways, uint32_t number, uint32_t from, bool is_new) {
    const struct compile_rule *rule = &ways->walk->compiled->rules[number];
    const bool aside = is_aside(ways);
    struct read read = {0};
    const enum holds holds = try_rule(ways, rule, from, &read);

    if (ways->walk->recorder && is_new)
        record(ways, number, rule, holds, aside);
    switch (holds) {
    case HOLDS_NO:
        set_mark(ways, frame_join_marks(ways->before, mark(ways)));
        return true;
    case HOLDS_YES:
        return follow(ways, number, rule);
    case HOLDS_CLOSED:
        end_open(ways, read, false);
        return end_way(ways);
    case HOLDS_MAY:
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
        frame_enter_newly(ways->walk, base);
    }
    while (goes_on) {
        const uint32_t rule = frame_next_rule(&ways->walk->frame);

        goes_on = rule == FRAME_NO_RULE ? end_chain(ways) : walk_rule(ways, rule, 0, true);
    }
    set_mark(ways, ways->accepted);
    return ways->accepts;
}

void ways_go_on(struct walk *walk, const struct decide_settings *settings,
                struct compile_bases bases) {
    const struct names *names = walk->input->names;
    const bool waits = names && names->state == NAMES_UNDECIDED;
    uint32_t stuck = walk->outcome->rule;
    struct ways ways = {
        .walk = walk,
        .truncated_open = settings->truncated_open,
        .unknown_open =
            waits ? settings->undecided_verdict == VERDICT_ACCEPT : settings->unknown_open,
        .waits = waits,
    };

    clear_end(&ways);
    for (uint32_t i = 0; i < bases.count; i++) {
        if (!walk_base(&ways, walk->compiled->bases[bases.first + i], stuck))
            return;
        stuck = FRAME_NO_RULE;
    }
    end_open(&ways, ways.read, true);
}
