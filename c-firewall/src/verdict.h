// SPDX-License-Identifier: GPL-2.0-or-later
// What can be done with a packet, what the kernel calls it, and how neighbours share one message.
#ifndef VERDICT_H
#define VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERDICT_RUNS_MAX =
        1024, // = the largest --batch: a receive call of as many packets, all different
};

enum verdict {
    VERDICT_ACCEPT,
    VERDICT_DROP,
    VERDICT_REJECT,  // to the kernel a drop
    VERDICT_MARK,    // to the kernel an accept with a mark
    VERDICT_REPEAT,  // through the hook once more
    VERDICT_REQUEUE, // to another queue
    VERDICT_COUNT
};

/// Packets of ascending ids that share a verdict: one netlink message. A batch verdict of the
/// kernel (nfqnl_recv_verdict_batch) covers every id up to its own, so the runs of a batch must
/// be sent in order.
struct verdict_run {
    uint32_t kernel; // NF_* value, host order
    bool has_mark;
    uint32_t mark; // host order; 0 without has_mark
    uint32_t first_id;
    uint32_t last_id;
    uint32_t count; // packets
};

/// The verdicts of one receive call. Zeroed is empty.
struct verdict_batch {
    size_t count; // of runs
    struct verdict_run runs[VERDICT_RUNS_MAX];
};

/// The verdict's name in reports, e.g. "accept".
const char *verdict_name(enum verdict verdict);

/// The kernel's value (linux/netfilter.h).
/// - argument: the queue number for VERDICT_REQUEUE, else ignored.
uint32_t verdict_kernel(enum verdict verdict, uint32_t argument);

/// Empties the batch.
void verdict_batch_clear(struct verdict_batch *batch);

/// Adds a packet's verdict: to the last run if verdict and mark are the same and the id is
/// later (a 32-bit counter that wraps), else as a new run.
/// - argument: the mark (host order) for VERDICT_MARK, the queue number for VERDICT_REQUEUE,
///   else ignored.
/// - Fails with -ENOBUFS, the batch untouched, if VERDICT_RUNS_MAX runs are there.
int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument);

#endif
