// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/frame.h"

static void add_list(struct frame *frame, const uint32_t *from, uint32_t count) {
    if (count > 0)
        frame->lists[frame->count++] = (struct frame_list){from, from + count};
}

/// Adds the rules that an index has for the packet's field value to the lists of the current chain.
static void add_candidates(struct walk *walk, const struct compile_index *index) {
    const struct candidates *candidates = &index->candidates;
    uint32_t list;

    if (!fields_is_present(&walk->fields, index->field))
        return;
    if (index->slot < FIELDS_WIDE_COUNT)
        list = lookup_find_wide(&candidates->lookup, walk->fields.wide[index->slot]);
    else
        list = lookup_find(&candidates->lookup, walk->fields.narrow[index->field]);
    if (list != LOOKUP_NONE)
        add_list(&walk->frame, &candidates->ids[candidates->starts[list]],
                 candidates->starts[list + 1] - candidates->starts[list]);
}

static void enter(struct walk *walk, uint32_t chain) {
    const struct compile_finder *finder = &walk->compiled->chains[chain].finders[walk->reach];

    walk->frame.chain = chain;
    walk->frame.count = 0;
    add_list(&walk->frame, &walk->compiled->always[finder->first_always], finder->always_count);
    for (uint32_t i = 0; i < finder->index_count; i++)
        add_candidates(walk, &walk->compiled->indexes[finder->first_index + i]);
}

void frame_enter_newly(struct walk *walk, uint32_t chain) {
    enter(walk, chain);
    if (walk->recorder)
        walk->recorder->chain(walk->recorder->context, walk->compiled->chains[chain].place,
                              walk->way);
}

/// Skips the rules of a list up to and including `rule`.
static void skip(struct frame_list *list, uint32_t rule) {
    const uint32_t *from = list->at, *to = list->end;

    while (from < to) {
        const uint32_t *middle = from + (to - from) / 2;

        if (*middle <= rule)
            from = middle + 1;
        else
            to = middle;
    }
    list->at = from;
}

uint32_t frame_next_rule(struct frame *frame) {
    struct frame_list *lowest = &frame->lists[0];

    if (frame->count == 0)
        return FRAME_NO_RULE;
    for (uint32_t i = 1; i < frame->count; i++) {
        struct frame_list *list = &frame->lists[i];

        if (list->at < list->end && (lowest->at == lowest->end || *list->at < *lowest->at))
            lowest = list;
    }
    return lowest->at < lowest->end ? *lowest->at++ : FRAME_NO_RULE;
}

void frame_go_back(struct walk *walk, const struct frame_waiting *waiting) {
    walk->way = waiting->way;
    enter(walk, waiting->chain);
    for (uint32_t i = 0; i < walk->frame.count; i++)
        skip(&walk->frame.lists[i], waiting->rule);
}

bool frame_leave(struct walk *walk) {
    if (walk->depth == 0)
        return false;
    frame_go_back(walk, &walk->stack[--walk->depth]);
    return true;
}

void frame_remember(struct walk *walk, uint32_t rule, struct frame_fork fork) {
    if (walk->depth < POLICY_WAY_MAX)
        walk->stack[walk->depth++] =
            (struct frame_waiting){walk->frame.chain, rule, walk->way, fork};
}

enum policy_verdict frame_end_by_rule(struct walk *walk, enum policy_verdict verdict,
                                      uint32_t rule) {
    walk->outcome->by = DECIDE_BY_RULE;
    walk->outcome->rule = rule;
    walk->outcome->chain = walk->frame.chain;
    return verdict;
}

enum policy_verdict frame_policy(const struct compiled *compiled, uint32_t base) {
    return compiled->chains[base].policy;
}

enum policy_verdict frame_end_by_policy(struct walk *walk, uint32_t base) {
    walk->outcome->by = DECIDE_BY_POLICY;
    walk->outcome->chain = base;
    return frame_policy(walk->compiled, base);
}
