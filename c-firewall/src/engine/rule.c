// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/rule.h"

#include "engine/fields.h"
#include "engine/matches.h"
#include "engine/set.h"
#include "engine/statement.h"

static const struct set_target NOWHERE = {.verdict = POLICY_CONTINUE};

bool rule_is_aside(const struct ways *ways) { return ways->aside || ways->accepts; }

/// Returns true if --fail and --undecided accept packets of which a rule reads these unknown
/// values.
static bool is_open(const struct ways *ways, struct rule_read read) {
    return (!read.beyond || ways->truncated_open) && (!read.names || ways->unknown_open);
}

/// Stores the mark on the current ways in the fields that statements read. If the ways have no
/// single known mark, stores the packet's mark, and makes the field unknown.
static void show_marks(struct ways *ways) {
    struct fields *fields = &ways->walk->fields;
    uint32_t value = ways->walk->outcome->mark;

    if (marks_value(ways->values, ways->marks, &value)) {
        fields->present |= FIELDS_BIT(POLICY_META_MARK);
    } else {
        fields->present &= ~FIELDS_BIT(POLICY_META_MARK);
        fields->unknown |= FIELDS_BIT(POLICY_META_MARK);
    }
    fields->narrow[POLICY_META_MARK] = value;
}

void rule_set_marks(struct ways *ways, mark_set marks) {
    if (marks == ways->marks)
        return;
    ways->marks = marks;
    show_marks(ways);
}

mark_set rule_together(const struct ways *ways, const struct compile_op *op, mark_set marks) {
    const mark_set first = marks_first(marks);
    const bool reads = marks != first &&
                       (matches_looks_at(ways->walk->compiled, op) & FIELDS_BIT(POLICY_META_MARK));

    return reads ? first : marks;
}

/// Records in ways and read that it is unknown whether the current rule holds, because of one of
/// its statements.
/// - fields: bits of the fields that the statement reads; 0 if only the mark decides.
static void note_open(struct ways *ways, struct rule_read *read, uint32_t statement,
                      enum decide_why why, uint64_t fields) {
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

/// Executes a statement that sets the mark by a map; if the map's key is unknown, the mark may have
/// any value of the map. Returns DECIDE_HELD, DECIDE_BEYOND or DECIDE_UNKNOWN, or the reason why
/// the rule does not hold.
/// - aside: true if the mark in the outcome stays unchanged.
static enum decide_why mark_map(struct ways *ways, const struct compile_op *op, bool aside) {
    const struct compiled *compiled = ways->walk->compiled;
    const struct set *set = &compiled->sets[op->index];
    struct set_target none = NOWHERE;
    uint32_t element;
    const enum match found = matches_find(compiled, &ways->walk->fields, op, &element);
    mark_set marks = MARKS_NONE;

    switch (found) {
    case MATCH_FOUND:
        marks = marks_one(ways->values, set->marks[element]);
        break;
    case MATCH_BEYOND:
    case MATCH_UNKNOWN:
        marks = marks_all(ways->values, set->possible, set->possible_count);
        break;
    case MATCH_MISSING:
    case MATCH_NOT:
        return matches_why_not(found);
    }
    if (!aside)
        statement_walk(ways->walk, op, &none);
    ways->marks = marks;
    show_marks(ways);
    return matches_why_not(found);
}

/// Executes a statement other than a verdict or reject. Returns DECIDE_HELD, DECIDE_BEYOND or
/// DECIDE_UNKNOWN, or the reason why the rule does not hold.
/// - aside: true to omit the effects of the statement. The result for a limit or quota is then
///   DECIDE_HELD, and the current marks are added to ways->past: it is unknown whether the rule
///   holds.
/// - This function and walk_marks are inlined, because two calls per statement would add a
///   thirtieth to the instructions of a decision whose names are unknown.
__attribute__((always_inline)) static inline enum decide_why
walk_statement(struct ways *ways, const struct compile_op *op, bool aside) {
    struct set_target none = NOWHERE;

    switch ((enum compile_kind)op->kind) {
    case COMPILE_COUNTER:
    case COMPILE_LOG:
        return aside ? DECIDE_HELD : statement_walk(ways->walk, op, &none);
    case COMPILE_LIMIT:
    case COMPILE_QUOTA:
        if (!aside)
            return statement_walk(ways->walk, op, &none);
        ways->past |= ways->marks;
        return DECIDE_HELD;
    case COMPILE_MARK:
        ways->marks = marks_changed(ways->values, ways->marks, op->mask, op->low);
        if (!aside)
            statement_walk(ways->walk, op, &none);
        show_marks(ways);
        return DECIDE_HELD;
    case COMPILE_MARK_MAP:
        return mark_map(ways, op, aside);
    default:
        return statement_walk(ways->walk, op, &none);
    }
}

/// Executes, for the current marks, a statement other than a verdict or reject. Returns DECIDE_HELD
/// if the rule may still hold, otherwise the reason why it does not hold.
/// - number: index of the statement in the rule.
/// - aside: true to omit the effects of the statement.
/// - read: in/out: kinds of unknown values on which the result of the rule depends.
__attribute__((always_inline)) static inline enum decide_why walk_marks(struct ways *ways,
                                                                        const struct compile_op *op,
                                                                        uint32_t number, bool aside,
                                                                        struct rule_read *read) {
    const mark_set before = ways->marks;
    const enum decide_why why = walk_statement(ways, op, aside);

    if (why == DECIDE_BEYOND || why == DECIDE_UNKNOWN) {
        note_open(ways, read, number, why, matches_looks_at(ways->walk->compiled, op));
        ways->past |= before;
    } else if (why != DECIDE_HELD) {
        ways->fails |= before;
        return why;
    }
    return DECIDE_HELD;
}

/// Executes a statement that reads the mark, without its effects, once for each of the current
/// marks. Returns DECIDE_HELD if the rule may still hold with one of them, otherwise the reason why
/// it does not hold.
__attribute__((cold, noinline)) static enum decide_why
walk_each(struct ways *ways, const struct compile_op *op, uint32_t number, struct rule_read *read) {
    const mark_set before = ways->marks;
    mark_set left = before, held = MARKS_NONE;
    enum decide_why failed = DECIDE_HELD;

    while (left != MARKS_NONE) {
        const mark_set mark = marks_first(left);
        enum decide_why why;

        left &= ~mark;
        rule_set_marks(ways, mark);
        why = walk_marks(ways, op, number, true, read);
        if (why == DECIDE_HELD)
            held |= ways->marks;
        else
            failed = why;
    }
    if (held == MARKS_NONE) {
        rule_set_marks(ways, before);
        return failed;
    }
    if (failed != DECIDE_HELD)
        note_open(ways, read, number, DECIDE_UNKNOWN, 0);
    rule_set_marks(ways, held);
    return DECIDE_HELD;
}

/// Returns the result of a rule at a statement with an effect, if the rule has read unknown values
/// with which no packet may pass: RULE_HOLDS_NO if the statement is a map with names in its key
/// that certainly has no element for the packet, otherwise RULE_HOLDS_CLOSED.
static enum rule_holds closed(struct ways *ways, const struct compile_op *op, uint32_t number) {
    const enum decide_why why = statement_look_up(ways->walk, op);

    if (why == DECIDE_HELD || why == DECIDE_BEYOND || why == DECIDE_UNKNOWN)
        return RULE_HOLDS_CLOSED;
    ways->statement = number;
    ways->why = why;
    ways->fails |= ways->marks;
    return RULE_HOLDS_NO;
}

enum rule_holds rule_evaluate(struct ways *ways, const struct compile_rule *rule, uint32_t from,
                              struct rule_read *read) {
    const struct compile_op *ops = statement_ops(ways->walk, rule);
    const enum decide_why needs = statement_meets(ways->walk, rule->needs);

    ways->statement = needs == DECIDE_HELD ? rule->count : 0;
    ways->why = needs;
    ways->past = ways->fails = MARKS_NONE;
    if (needs == DECIDE_BEYOND) {
        read->beyond = true;
        ways->past = ways->marks;
    } else if (needs != DECIDE_HELD) {
        ways->fails = ways->marks;
        return RULE_HOLDS_NO;
    }
    for (uint32_t i = from; i < rule->count; i++) {
        enum decide_why why;

        if (ops[i].kind > COMPILE_LEARNED && !is_open(ways, *read))
            return closed(ways, &ops[i], i);
        if (ops[i].kind == COMPILE_VERDICT || ops[i].kind == COMPILE_REJECT)
            break;
        if (rule_together(ways, &ops[i], ways->marks) == ways->marks)
            why = walk_marks(ways, &ops[i], i,
                             (ways->past | ways->fails) != MARKS_NONE || rule_is_aside(ways), read);
        else
            why = walk_each(ways, &ops[i], i, read);
        if (why != DECIDE_HELD) {
            ways->statement = i;
            ways->why = why;
            return RULE_HOLDS_NO;
        }
    }
    if (!is_open(ways, *read))
        return RULE_HOLDS_CLOSED;
    return (ways->past | ways->fails) == MARKS_NONE ? RULE_HOLDS_YES : RULE_HOLDS_MAY;
}
