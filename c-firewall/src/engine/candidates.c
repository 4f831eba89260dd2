// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/candidates.h"

#include <errno.h>
#include <stdlib.h>

/// Numbers of the intervals that a range contains: from first to behind - 1.
struct span {
    uint32_t first;
    uint32_t behind;
};

/// Working memory of candidates_make.
struct plan {
    uint32_t bound_count;
    // Values at which an interval begins, ascending. Interval n ends before interval n + 1 begins.
    policy_value *bounds;
    struct span *spans; // intervals of each range
    uint32_t *totals;   // number of intervals of each ID
    uint32_t *fill;     // index at which the next ID of each interval is stored
};

static int compare_values(const void *left, const void *right) {
    const policy_value a = *(const policy_value *)left, b = *(const policy_value *)right;

    return (a > b) - (a < b);
}

/// Finds the values at which an interval begins: all values at which a range begins, or which
/// follow the end of a range.
static void find_bounds(struct plan *plan, const struct lookup_range *ranges, uint32_t count) {
    uint32_t bounds = 0, kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        plan->bounds[bounds++] = ranges[i].low;
        if (ranges[i].high + 1 != 0)
            plan->bounds[bounds++] = ranges[i].high + 1;
    }
    if (bounds > 0)
        qsort(plan->bounds, bounds, sizeof *plan->bounds, compare_values);
    for (uint32_t i = 0; i < bounds; i++)
        if (kept == 0 || plan->bounds[i] != plan->bounds[kept - 1])
            plan->bounds[kept++] = plan->bounds[i];
    plan->bound_count = kept;
}

/// Returns the number of the interval that begins at a bound.
static uint32_t interval_at(const struct plan *plan, policy_value bound) {
    uint32_t from = 0, to = plan->bound_count;

    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;

        if (plan->bounds[middle] < bound)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void find_spans(struct plan *plan, const struct lookup_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const policy_value behind = ranges[i].high + 1;

        plan->spans[i].first = interval_at(plan, ranges[i].low);
        plan->spans[i].behind = behind == 0 ? plan->bound_count : interval_at(plan, behind);
    }
}

static void leave_out(struct plan *plan, const struct lookup_range *ranges, uint32_t count,
                      bool *left_out) {
    for (uint32_t i = 0; i < count; i++)
        plan->totals[ranges[i].value] += plan->spans[i].behind - plan->spans[i].first;
    for (uint32_t i = 0; i < count; i++)
        left_out[ranges[i].value] = plan->totals[ranges[i].value] > CANDIDATES_INTERVALS_MAX;
}

/// Fills starts and ids of the lists: counts the items of each interval first, then stores them.
/// Returns 0 or -ENOMEM.
static int fill_lists(struct candidates *candidates, struct plan *plan,
                      const struct lookup_range *ranges, uint32_t count, const bool *left_out) {
    uint32_t total = 0;

    for (uint32_t i = 0; i < count; i++)
        if (!left_out[ranges[i].value])
            for (uint32_t at = plan->spans[i].first; at < plan->spans[i].behind; at++)
                candidates->starts[at + 1]++;
    for (uint32_t at = 0; at < plan->bound_count; at++) {
        total += candidates->starts[at + 1];
        candidates->starts[at + 1] = total;
        plan->fill[at] = candidates->starts[at];
    }
    candidates->ids = malloc((total > 0 ? total : 1) * sizeof *candidates->ids);
    if (!candidates->ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (!left_out[ranges[i].value])
            for (uint32_t at = plan->spans[i].first; at < plan->spans[i].behind; at++)
                candidates->ids[plan->fill[at]++] = ranges[i].value;
    return 0;
}

/// Creates the lookup from values to the numbers of their lists of candidates (rules or set
/// elements). Omits intervals with an empty list.
static int make_lookup(struct candidates *candidates, const struct plan *plan, uint32_t bits) {
    struct lookup_range *lists = malloc((plan->bound_count + 1ULL) * sizeof *lists);
    uint32_t count = 0;
    int result;

    if (!lists)
        return -ENOMEM;
    for (uint32_t at = 0; at < plan->bound_count; at++)
        if (candidates->starts[at] < candidates->starts[at + 1])
            lists[count++] = (struct lookup_range){
                .low = plan->bounds[at],
                .high = (at + 1 < plan->bound_count ? plan->bounds[at + 1] : 0) - 1,
                .value = at,
            };
    result = lookup_make(&candidates->lookup, bits, lists, count);
    free(lists);
    return result;
}

int candidates_make(struct candidates *candidates, uint32_t bits, const struct lookup_range *ranges,
                    uint32_t count, uint32_t id_count, bool *left_out) {
    struct plan plan = {
        .bounds = malloc((2ULL * count + 1) * sizeof *plan.bounds),
        .spans = malloc((count + 1ULL) * sizeof *plan.spans),
        .totals = calloc(id_count + 1ULL, sizeof *plan.totals),
    };
    int result = -ENOMEM;

    *candidates = (struct candidates){0};
    if (!plan.bounds || !plan.spans || !plan.totals)
        goto cleanup;
    find_bounds(&plan, ranges, count);
    find_spans(&plan, ranges, count);
    leave_out(&plan, ranges, count, left_out);
    plan.fill = malloc((plan.bound_count + 1ULL) * sizeof *plan.fill);
    candidates->starts = calloc(plan.bound_count + 1ULL, sizeof *candidates->starts);
    if (!plan.fill || !candidates->starts)
        goto cleanup;
    candidates->list_count = plan.bound_count;
    result = fill_lists(candidates, &plan, ranges, count, left_out);
    if (result == 0)
        result = make_lookup(candidates, &plan, bits);

cleanup:
    free(plan.bounds);
    free(plan.spans);
    free(plan.totals);
    free(plan.fill);
    if (result < 0)
        candidates_free(candidates);
    return result;
}

void candidates_free(struct candidates *candidates) {
    lookup_free(&candidates->lookup);
    free(candidates->starts);
    free(candidates->ids);
    *candidates = (struct candidates){0};
}

uint32_t candidates_cost(const struct candidates *candidates) {
    uint64_t total = 0, weighted = 0;

    for (uint32_t list = 0; list < candidates->list_count; list++) {
        const uint64_t length = candidates->starts[list + 1] - candidates->starts[list];

        total += length;
        weighted += length * length;
    }
    return total == 0 ? 0 : (uint32_t)((weighted + total - 1) / total);
}
