// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/rule.h"

#include "engine/fields.h"
#include "engine/matches.h"
#include "engine/set.h"
#include "engine/statement.h"

static const struct set_target NOWHERE = {.verdict = POLICY_CONTINUE};

bool rule_is_aside(const struct ways *ways) {
    return ways->aside || ways->accepts || ways->joins.is_choosing;
}

/// Returns true if the --fail modes accept packets of which a rule reads these unknown values.
static bool is_open(const struct ways *ways, struct rule_read read) {
    return (!read.beyond || ways->truncated_open) && (!read.names || ways->unknown_open);
}

struct frame_mark rule_mark(const struct ways *ways) {
    const struct fields *fields = &ways->walk->fields;

    if (!fields_is_present(fields, POLICY_META_MARK))
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    return (struct frame_mark){FRAME_MARK_KNOWN, fields->narrow[POLICY_META_MARK]};
}

void rule_set_mark(struct ways *ways, struct frame_mark mark) {
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
        ways->before = rule_mark(ways);
    rule_set_mark(ways, to);
}

/// Records that it is unknown whether the current rule holds, because of one of its statements.
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
    struct frame_mark changed = rule_mark(ways);

    if (changed.state == FRAME_MARK_KNOWN || keep == 0)
        changed = (struct frame_mark){FRAME_MARK_KNOWN, (changed.value & keep) ^ toggle};
    return changed;
}

/// Executes a statement that is no verdict. Returns the reason why the rule ends there.
/// - may: true if the rule may hold; set by a limit or quota that may hold or not.
static enum decide_why walk_statement(struct ways *ways, const struct compile_op *op, bool *may) {
    const bool aside = *may || rule_is_aside(ways);
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
static enum rule_holds closed(struct ways *ways, const struct compile_op *op, uint32_t number) {
    const enum decide_why why = statement_look_up(ways->walk, op);

    if (why == DECIDE_HELD || why == DECIDE_BEYOND || why == DECIDE_UNKNOWN)
        return RULE_HOLDS_CLOSED;
    ways->statement = number;
    ways->why = why;
    return RULE_HOLDS_NO;
}

enum rule_holds rule_evaluate(struct ways *ways, const struct compile_rule *rule, uint32_t from,
                              struct rule_read *read) {
    const struct compile_op *ops = statement_ops(ways->walk, rule);
    const enum decide_why needs = statement_meets(ways->walk, rule->needs);
    bool may = needs == DECIDE_BEYOND;

    ways->statement = needs == DECIDE_HELD ? rule->count : 0;
    ways->why = needs;
    ways->before = (struct frame_mark){0};
    if (needs != DECIDE_HELD && needs != DECIDE_BEYOND)
        return RULE_HOLDS_NO;
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
            return RULE_HOLDS_NO;
        }
    }
    if (!is_open(ways, *read))
        return RULE_HOLDS_CLOSED;
    return may ? RULE_HOLDS_MAY : RULE_HOLDS_YES;
}
