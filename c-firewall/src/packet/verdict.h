// SPDX-License-Identifier: GPL-2.0-or-later
// Verdicts: their values in the kernel, and how packets with adjacent IDs share one message.
#ifndef PACKET_VERDICT_H
#define PACKET_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/option.h"

enum {
    VERDICT_PACKETS_MAX = OPTION_BATCH_MAX,
    // Maximum number of runs: all verdicts differ, with a gap before each packet and one after the
    // last.
    VERDICT_RUNS_MAX = 2 * VERDICT_PACKETS_MAX + 1,
};

enum verdict {
    VERDICT_ACCEPT,
    VERDICT_DROP,
    VERDICT_REJECT,  // reject, which is a drop to the kernel
    VERDICT_MARK,    // accept with a mark
    VERDICT_REPEAT,  // another pass through the hook
    VERDICT_REQUEUE, // transfer to another queue
    VERDICT_COUNT
};

/// A run: packets of successive IDs with the same verdict, or a gap. It becomes one netlink
/// message. A batch verdict of the kernel (nfqnl_recv_verdict_batch) applies to every ID up to its
/// own. Therefore the runs of a batch must be sent in order, and no run may extend over an ID that
/// is not in it.
struct verdict_run {
    uint32_t kernel; // value for the kernel (NF_*), in host order
    bool has_mark;
    uint32_t mark; // mark in host order; 0 without has_mark
    uint32_t first_id;
    uint32_t last_id;
    uint32_t count; // number of packets; 0 for a gap
    // True for a gap: IDs up to last_id without a message, whose packets the kernel may still hold.
    bool gap;
};

/// Verdicts of one receive call, and their position among the IDs of the queue.
///
/// Theory of operation: the kernel's IDs count up by one for each offered packet, and its messages
/// come in that order. Therefore a skipped ID will have no message. Usually its packet was dropped
/// because the socket's buffer was full (which an overrun reports). But its message may have been
/// unreadable: then the packet waits in the kernel, and the next batch verdict would apply to it.
/// Therefore every gap gets the verdict of --fail malformed, in a message of its own, before the
/// verdict of the next ID.
struct verdict_batch {
    uint32_t fail; // value of the verdict for gaps (NF_*)
    bool known;    // true if last_id is known; otherwise the first gap covers all waiting packets
    uint32_t last_id;  // last ID up to which every ID has a verdict once the batch is sent
    uint32_t nameless; // number of messages without an ID since then
    bool overrun;      // true if the kernel has reported lost packets since the last gap
    // Number of IDs since verdict_batch_clear that were skipped without either explanation.
    uint32_t gap_ids;
    size_t count; // number of runs
    size_t sent;  // number of runs that were sent
    struct verdict_run runs[VERDICT_RUNS_MAX];
};

/// Returns the verdict's name in reports, e.g. "accept".
const char *verdict_name(enum verdict verdict);

/// Returns the kernel's value of a verdict (linux/netfilter.h).
/// - argument: queue number for VERDICT_REQUEUE, else ignored.
uint32_t verdict_kernel(enum verdict verdict, uint32_t argument);

/// Initialises a batch for a new queue, whose first ID is 1.
/// - gaps: verdict for IDs without a message.
void verdict_batch_begin(struct verdict_batch *batch, enum verdict gaps);

/// Makes the last ID unknown. Must be called if another process may have received from the queue.
void verdict_batch_forget(struct verdict_batch *batch);

/// Empties the batch.
void verdict_batch_clear(struct verdict_batch *batch);

/// Records that the kernel has lost packets because the socket had no room: that explains a gap.
void verdict_batch_overrun(struct verdict_batch *batch);

/// Records a packet with an unreadable ID.
void verdict_batch_skip(struct verdict_batch *batch);

/// Adds a packet's verdict: to the last run if verdict and mark are equal and the ID is the next
/// one (a 32-bit counter that wraps); otherwise as a new run, after a run for the gap before it.
/// - argument: mark (host order) for VERDICT_MARK, queue number for VERDICT_REQUEUE, else ignored.
/// - Fails with -ENOBUFS, the batch unchanged, if there is no room for two runs.
int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument);

/// Adds the verdicts for messages without an ID after the last packet, as far as their IDs are
/// known. Must be called after the last packet. The n-th message after an ID has an ID at least n
/// higher, and all later messages have still higher ones.
void verdict_batch_finish(struct verdict_batch *batch);

/// Returns true if runs are unsent.
bool verdict_batch_unsent(const struct verdict_batch *batch);

#endif
