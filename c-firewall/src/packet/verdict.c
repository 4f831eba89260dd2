// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/verdict.h"

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

void verdict_batch_begin(struct verdict_batch *batch, enum verdict gaps) {
    batch->fail = verdict_kernel(gaps, 0);
    batch->known = true;
    batch->last_id = 0;
    batch->nameless = 0;
    batch->overrun = false;
    verdict_batch_clear(batch);
}

void verdict_batch_forget(struct verdict_batch *batch) {
    batch->known = false;
    batch->nameless = 0;
}

void verdict_batch_clear(struct verdict_batch *batch) {
    batch->gap_ids = 0;
    batch->count = 0;
    batch->sent = 0;
}

void verdict_batch_overrun(struct verdict_batch *batch) { batch->overrun = true; }

void verdict_batch_skip(struct verdict_batch *batch) { batch->nameless++; }

static bool run_continues(const struct verdict_run *last, const struct verdict_run *next) {
    return !last->gap && last->kernel == next->kernel && last->has_mark == next->has_mark &&
           last->mark == next->mark && next->first_id == last->last_id + 1;
}

static void append_gap(struct verdict_batch *batch, uint32_t last_id) {
    batch->runs[batch->count++] = (struct verdict_run){
        .kernel = batch->fail,
        .first_id = batch->last_id + 1,
        .last_id = last_id,
        .gap = true,
    };
}

/// Sets the batch's last ID. Adds a run for the gap if IDs before it were skipped. Also accepts an
/// ID that is not after the last ID (in the order of the kernel's nfq_id_after): the kernel has
/// restarted its numbering.
static void move_to(struct verdict_batch *batch, uint32_t id) {
    const uint32_t passed = id - batch->last_id - 1;
    const bool gap = !batch->known || (passed > 0 && passed < (uint32_t)INT32_MAX);

    if (gap)
        append_gap(batch, id - 1);
    if (gap && batch->known && !batch->overrun && passed > batch->nameless)
        batch->gap_ids += passed - batch->nameless;
    if (gap)
        batch->overrun = false;
    batch->known = true;
    batch->nameless = 0;
    batch->last_id = id;
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

    if (batch->count + 2 > VERDICT_RUNS_MAX)
        return -ENOBUFS;
    move_to(batch, id);
    if (batch->count > 0) {
        struct verdict_run *last = &batch->runs[batch->count - 1];

        if (run_continues(last, &next)) {
            last->last_id = id;
            last->count++;
            return 0;
        }
    }
    batch->runs[batch->count++] = next;
    return 0;
}

void verdict_batch_finish(struct verdict_batch *batch) {
    if (batch->nameless == 0 || !batch->known || batch->count == VERDICT_RUNS_MAX)
        return;
    append_gap(batch, batch->last_id + batch->nameless);
    batch->last_id += batch->nameless;
    batch->nameless = 0;
}

bool verdict_batch_unsent(const struct verdict_batch *batch) { return batch->sent < batch->count; }
