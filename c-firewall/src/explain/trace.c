// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/trace.h"

#include <stdlib.h>

#include "explain/describe.h"

enum { ROOM_AT_FIRST = 64 };

/// Appends a zeroed item; returns NULL if there is no memory.
static struct trace_item *add(struct trace *trace) {
    if (trace->count == trace->room) {
        const size_t room = trace->room > 0 ? trace->room * 2 : ROOM_AT_FIRST;
        struct trace_item *items = realloc(trace->items, room * sizeof *items);

        if (!items) {
            trace->failed = true;
            return NULL;
        }
        trace->items = items;
        trace->room = room;
    }
    trace->items[trace->count] = (struct trace_item){0};
    return &trace->items[trace->count++];
}

static void take_chain(void *context, struct compile_place chain, uint32_t depth) {
    struct trace_item *item = add(context);

    if (item)
        *item = (struct trace_item){.is_chain = true, .depth = depth, .step.place = chain};
}

static void take_rule(void *context, const struct decide_step *step) {
    struct trace_item *item = add(context);

    if (item)
        *item = (struct trace_item){.depth = step->depth, .step = *step};
}

struct decide_recorder trace_recorder(struct trace *trace) {
    return (struct decide_recorder){.chain = take_chain, .rule = take_rule, .context = trace};
}

void trace_clear(struct trace *trace) {
    trace->count = 0;
    trace->failed = false;
}

void trace_free(struct trace *trace) {
    free(trace->items);
    *trace = (struct trace){0};
}

/// Returns true if a rule, had it matched, could have led to another verdict.
/// - verdict: the packet's verdict.
static bool leads_elsewhere(const struct policy_rule *rule, enum verdict verdict) {
    const struct policy_statement *last = &rule->statements[rule->count - 1];

    if (last->kind == POLICY_REJECT)
        return verdict != VERDICT_REJECT;
    if (last->kind != POLICY_VERDICT)
        return last->kind == POLICY_VMAP;
    switch (last->target->verdict) {
    case POLICY_ACCEPT:
        return verdict != VERDICT_ACCEPT;
    case POLICY_DROP:
        return verdict != VERDICT_DROP;
    case POLICY_JUMP:
    case POLICY_GOTO:
        return true;
    case POLICY_CONTINUE:
    case POLICY_RETURN:
        break;
    }
    return false;
}

const struct trace_item *trace_nearest_miss(const struct trace *trace, const struct policy *policy,
                                            enum verdict verdict) {
    const struct trace_item *nearest = NULL;

    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_item *item = &trace->items[i];

        if (item->is_chain || item->step.why == DECIDE_HELD ||
            !leads_elsewhere(describe_rule(policy, item->step.place), verdict))
            continue;
        if (!nearest || item->step.place.statement > nearest->step.place.statement)
            nearest = item;
    }
    return nearest;
}
