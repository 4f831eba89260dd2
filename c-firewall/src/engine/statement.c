// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/statement.h"

#include <netinet/in.h>

#include "engine/dependency.h"
#include "engine/fields.h"
#include "engine/matches.h"

static void set_mark(struct walk *walk, uint32_t mark) {
    walk->fields.present |= FIELDS_BIT(POLICY_META_MARK);
    walk->fields.narrow[POLICY_META_MARK] = mark;
    walk->outcome->mark = mark;
    walk->outcome->mark_set = true;
}

static enum match mark_map(struct walk *walk, const struct compile_op *op) {
    uint32_t element;
    const enum match found = matches_find(walk->compiled, &walk->fields, op, &element);

    if (found == MATCH_FOUND)
        set_mark(walk, walk->compiled->sets[op->index].marks[element]);
    return found;
}

static enum match vmap(const struct walk *walk, const struct compile_op *op,
                       struct set_target *target) {
    uint32_t element;
    const enum match found = matches_find(walk->compiled, &walk->fields, op, &element);

    if (found == MATCH_FOUND)
        *target = walk->compiled->sets[op->index].targets[element];
    return found;
}

/// Counts a packet that a log statement has seen, and adds the statement to the outcome.
static void count_log(struct walk *walk, uint32_t log) {
    struct decide_outcome *outcome = walk->outcome;

    flow_log(walk->counters, log);
    if (outcome->log_count < DECIDE_LOGS_MAX)
        outcome->logs[outcome->log_count] = log;
    outcome->log_count++;
}

enum decide_why statement_meets(const struct walk *walk, uint32_t needs) {
    const struct packet *packet = walk->input->packet;
    const uint32_t nfproto = walk->fields.narrow[POLICY_META_NFPROTO];

    if (((needs & DEPENDENCY_NEEDS_IPV4) && nfproto != FIELDS_IPV4) ||
        ((needs & DEPENDENCY_NEEDS_IPV6) && nfproto != FIELDS_IPV6))
        return DECIDE_NO_ANSWER;
    if (!(needs & DEPENDENCY_NEEDS_TCP))
        return DECIDE_HELD;
    if (!packet->has_transport)
        return packet->headers_beyond ? DECIDE_BEYOND : DECIDE_NO_ANSWER;
    return packet->transport_protocol == IPPROTO_TCP ? DECIDE_HELD : DECIDE_NO_ANSWER;
}

static void reject(struct walk *walk, const struct compile_op *op) {
    walk->outcome->verdict = VERDICT_REJECT;
    walk->outcome->reject = (struct policy_reject){
        .kind = (enum policy_reject_kind)op->code,
        .code = (uint8_t)op->index,
    };
}

enum decide_why statement_walk(struct walk *walk, const struct compile_op *op,
                               struct set_target *target) {
    const struct compiled *compiled = walk->compiled;
    const struct decide_input *input = walk->input;
    enum match found = MATCH_FOUND;

    switch ((enum compile_kind)op->kind) {
    case COMPILE_NARROW:
        found = matches_narrow(&walk->fields, op);
        break;
    case COMPILE_WIDE:
        found = matches_wide(walk->compiled, &walk->fields, op);
        break;
    case COMPILE_SET:
        found = matches_set(walk->compiled, &walk->fields, op);
        break;
    case COMPILE_LEARNED:
        found = matches_learned(walk->compiled, &walk->fields, op, input->now_ns);
        break;
    case COMPILE_COUNTER:
        flow_count(walk->counters, op->index, input->length);
        break;
    case COMPILE_LIMIT:
        if (!flow_limit_holds(walk->flow, op->index, &compiled->limits[op->index], input->length,
                              input->now_ns))
            return DECIDE_LIMIT;
        break;
    case COMPILE_QUOTA:
        if (!flow_quota_holds(walk->flow, op->index, &compiled->quotas[op->index], input->length))
            return DECIDE_QUOTA;
        break;
    case COMPILE_LOG:
        count_log(walk, op->index);
        break;
    case COMPILE_MARK:
        set_mark(walk, (walk->fields.narrow[POLICY_META_MARK] & op->mask) ^ op->low);
        break;
    case COMPILE_MARK_MAP:
        found = mark_map(walk, op);
        break;
    case COMPILE_VERDICT:
        *target = (struct set_target){(enum policy_verdict)op->code, op->index};
        break;
    case COMPILE_REJECT:
        reject(walk, op);
        target->verdict = POLICY_DROP;
        break;
    case COMPILE_VMAP:
        found = vmap(walk, op, target);
        break;
    }
    return matches_why_not(found);
}

enum decide_why statement_look_up(const struct walk *walk, const struct compile_op *op) {
    uint32_t element;

    if ((op->kind != COMPILE_MARK_MAP && op->kind != COMPILE_VMAP) ||
        !(matches_looks_at(walk->compiled, op) & POLICY_FIELDS_OF_NAMES))
        return DECIDE_HELD;
    return matches_why_not(matches_find(walk->compiled, &walk->fields, op, &element));
}

void statement_record(const struct walk *walk, uint32_t rule, uint32_t statement,
                      enum decide_why why, const struct set_target *target, bool may) {
    const struct compile_rule *walked = &walk->compiled->rules[rule];
    struct decide_step step = {
        .place = walk->compiled->chains[walk->frame.chain].place,
        .depth = walk->way,
        .why = why,
        .may = may,
        .has_verdict = why == DECIDE_HELD && target->verdict != POLICY_CONTINUE,
        .verdict = target->verdict,
        // Field of the conditions that are checked before the first statement.
        .missing = POLICY_META_L4PROTO,
    };

    step.place.rule = rule - walk->compiled->chains[walk->frame.chain].first_rule;
    step.place.statement = statement;
    if (why == DECIDE_DIFFERS || why == DECIDE_MISSING || why == DECIDE_BEYOND ||
        why == DECIDE_UNKNOWN)
        matches_note_values(walk->compiled, &walk->fields,
                            &walk->compiled->ops[walked->first + statement], &step);
    walk->recorder->rule(walk->recorder->context, &step);
}
