// SPDX-License-Identifier: GPL-2.0-or-later
// What can be done with a packet, what the kernel calls it, and how neighbours share one message.
#ifndef PACKET_VERDICT_H
#define PACKET_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/option.h"

enum {
    VERDICT_PACKETS_MAX = OPTION_BATCH_MAX,
    VERDICT_RUNS_MAX = 2 * VERDICT_PACKETS_MAX + 1, // all different, each behind a gap, one at last
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

/// A run: packets of successive ids that share a verdict, or a gap. It is one netlink message. A
/// batch verdict of the kernel (nfqnl_recv_verdict_batch) covers every id up to its own, so the
/// runs of a batch must be sent in order, and none goes over an id that is not in it.
struct verdict_run {
    uint32_t kernel; // NF_* value, host order
    bool has_mark;
    uint32_t mark; // host order; 0 without has_mark
    uint32_t first_id;
    uint32_t last_id;
    uint32_t count; // packets; 0 in a gap
    bool gap;       // ids without a message: those that the kernel still holds up to last_id
};

/// The verdicts of one receive call, and where it stands in the ids of its queue.
///
/// Theory of operation: the kernel counts up by one for each packet that it offers, and its
/// messages come in that order. So an id that was passed over has no message to come. Most often
/// there is no packet either, since the socket's buffer was full (an overrun tells of it). But its
/// message may have been one that could not be read: then the packet waits in the kernel, and the
/// next batch verdict would let it pass. Therefore every gap gets the verdict of --fail malformed,
/// on its own, before the verdict of the id behind it.
struct verdict_batch {
    uint32_t fail;     // NF_* value for gaps
    bool known;        // last_id is; else the first gap reaches back to all that waits
    uint32_t last_id;  // up to it each id has its verdict, as soon as the batch is sent
    uint32_t nameless; // messages without an id since
    bool overrun;      // the kernel has reported lost packets, and no gap has come since
    uint32_t gap_ids;  // passed over, by neither explained, since verdict_batch_clear
    size_t count;      // of runs
    size_t sent;       // runs that the kernel has
    struct verdict_run runs[VERDICT_RUNS_MAX];
};

/// The verdict's name in reports, e.g. "accept".
const char *verdict_name(enum verdict verdict);

/// The kernel's value (linux/netfilter.h).
/// - argument: the queue number for VERDICT_REQUEUE, else ignored.
uint32_t verdict_kernel(enum verdict verdict, uint32_t argument);

/// Begins at the start of a queue, whose first id is 1.
/// - gaps: the verdict for ids without a message.
void verdict_batch_begin(struct verdict_batch *batch, enum verdict gaps);

/// To be called when another process may have received from the queue.
void verdict_batch_forget(struct verdict_batch *batch);

/// Empties the batch.
void verdict_batch_clear(struct verdict_batch *batch);

/// To be told when the kernel lost packets for want of room in the socket: that explains a gap.
void verdict_batch_overrun(struct verdict_batch *batch);

/// Passes over a packet whose id could not be read.
void verdict_batch_skip(struct verdict_batch *batch);

/// Adds a packet's verdict: to the last run if verdict and mark are the same and the id is the next
/// one (a 32-bit counter that wraps), else as a new run, behind one for the gap before it.
/// - argument: the mark (host order) for VERDICT_MARK, the queue number for VERDICT_REQUEUE,
///   else ignored.
/// - Fails with -ENOBUFS, the batch untouched, if there is no room for two runs.
int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument);

/// To be called after the last packet: gives verdicts to those passed over after it, as far as
/// their ids are known. The n-th message behind an id has an id at least n later, and all that come
/// after it have still later ones.
void verdict_batch_finish(struct verdict_batch *batch);

/// Whether runs are left to send.
bool verdict_batch_unsent(const struct verdict_batch *batch);

#endif
