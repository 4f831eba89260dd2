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
    return !last->gap && !last->is_restated && !next->is_restated && last->kernel == next->kernel &&
           last->has_mark == next->has_mark && last->mark == next->mark &&
           next->first_id == last->last_id + 1;
}

static void append_gap(struct verdict_batch *batch, uint32_t last_id) {
    batch->runs[batch->count++] = (struct verdict_run){
        .kernel = batch->fail,
        .first_id = batch->last_id + 1,
        .last_id = last_id,
        .gap = true,
    };
}

/// Sets the batch's last ID. Adds a run for the gap if IDs before it were skipped, or if the last
/// ID was unknown. Also accepts an ID that is not after the last ID (in the order of the kernel's
/// nfq_id_after): the kernel has restarted its numbering.
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

/// Adds the run of one packet, after a run for a gap if there is a gap; or extends the last run by
/// the packet. Returns 0, or -ENOBUFS if there is no room for two runs.
static int add_run(struct verdict_batch *batch, struct verdict_run next) {
    if (batch->count + 2 > VERDICT_RUNS_MAX)
        return -ENOBUFS;
    move_to(batch, next.first_id);
    if (batch->count > 0) {
        struct verdict_run *last = &batch->runs[batch->count - 1];

        if (run_continues(last, &next)) {
            last->last_id = next.last_id;
            last->count++;
            return 0;
        }
    }
    batch->runs[batch->count++] = next;
    return 0;
}

static struct verdict_run run_of(uint32_t id, enum verdict verdict, uint32_t argument) {
    const bool has_mark = verdict == VERDICT_MARK;

    return (struct verdict_run){
        .kernel = verdict_kernel(verdict, argument),
        .has_mark = has_mark,
        .mark = has_mark ? argument : 0,
        .first_id = id,
        .last_id = id,
        .count = 1,
    };
}

int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument) {
    return add_run(batch, run_of(id, verdict, argument));
}

int verdict_batch_restate(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                          uint32_t argument, const struct verdict_restated *restated) {
    struct verdict_run run = run_of(id, verdict, argument);

    run.is_restated = true;
    run.restated = *restated;
    return add_run(batch, run);
}

void verdict_batch_finish(struct verdict_batch *batch) {
    if (batch->nameless == 0 || !batch->known || batch->count == VERDICT_RUNS_MAX)
        return;
    append_gap(batch, batch->last_id + batch->nameless);
    batch->last_id += batch->nameless;
    batch->nameless = 0;
}

bool verdict_batch_unsent(const struct verdict_batch *batch) { return batch->sent < batch->count; }

size_t verdict_batch_rest(const struct verdict_batch *batch, size_t most) {
    const size_t left = batch->count - batch->sent;
    const size_t limit = left < most ? left : most;
    const struct verdict_run *runs = &batch->runs[batch->sent];
    uint64_t bytes = 0;
    size_t together = 0;

    while (together < limit) {
        bytes += runs[together].is_restated ? runs[together].restated.bytes : 0;
        if (together > 0 && bytes > VERDICT_RESTATED_TOGETHER)
            break;
        together++;
    }
    return together;
}

void verdict_batch_withhold(struct verdict_batch *batch) {
    batch->runs[batch->sent].is_restated = false;
    batch->runs[batch->sent].kernel = NF_DROP;
}
