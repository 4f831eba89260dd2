// SPDX-License-Identifier: GPL-2.0-or-later
#include "verdict.h"

#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>

static const char *const names[] = {
    [VERDICT_ACCEPT] = "accept", [VERDICT_DROP] = "drop",     [VERDICT_REJECT] = "reject",
    [VERDICT_MARK] = "mark",     [VERDICT_REPEAT] = "repeat", [VERDICT_REQUEUE] = "requeue",
};
static_assert(sizeof names / sizeof *names == VERDICT_COUNT, "every verdict has a name");

const char *verdict_name(enum verdict verdict) { return names[verdict]; }

uint32_t verdict_kernel(enum verdict verdict, uint32_t argument) {
    switch (verdict) {
    case VERDICT_ACCEPT:
    case VERDICT_MARK:
        return NF_ACCEPT;
    case VERDICT_REPEAT:
        return NF_REPEAT;
    case VERDICT_REQUEUE:
        return NF_QUEUE_NR(argument);
    case VERDICT_DROP:
    case VERDICT_REJECT:
    case VERDICT_COUNT:
        break;
    }
    return NF_DROP;
}

void verdict_batch_clear(struct verdict_batch *batch) { batch->count = 0; }

/// Whether a 32-bit counter that wraps is later than another (nfq_id_after of the kernel).
static bool id_after(uint32_t id, uint32_t other) { return (int32_t)(id - other) > 0; }

static bool run_continues(const struct verdict_run *last, const struct verdict_run *next) {
    return last->kernel == next->kernel && last->has_mark == next->has_mark &&
           last->mark == next->mark && id_after(next->first_id, last->last_id);
}

int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument) {
    const bool has_mark = verdict == VERDICT_MARK;
    const struct verdict_run next = {
        .kernel = verdict_kernel(verdict, argument),
        .has_mark = has_mark,
        .mark = has_mark ? argument : 0,
        .first_id = id,
        .last_id = id,
        .count = 1,
    };

    if (batch->count > 0) {
        struct verdict_run *last = &batch->runs[batch->count - 1];

        if (run_continues(last, &next)) {
            last->last_id = id;
            last->count++;
            return 0;
        }
    }
    if (batch->count == VERDICT_RUNS_MAX)
        return -ENOBUFS;
    batch->runs[batch->count++] = next;
    return 0;
}
