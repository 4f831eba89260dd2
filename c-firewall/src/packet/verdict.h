// SPDX-License-Identifier: GPL-2.0-or-later
// Verdicts: their values in the kernel, and batches of verdicts. Packets with adjacent IDs and the
// same verdict share one netlink message.
#ifndef PACKET_VERDICT_H
#define PACKET_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/option.h"

enum {
    VERDICT_PACKETS_MAX = OPTION_BATCH_MAX,
    // Maximum number of runs of a batch: all verdicts differ, and there is a gap before each packet
    // and after the last packet.
    VERDICT_RUNS_MAX = 2 * VERDICT_PACKETS_MAX + 1,
    // Maximum total length in bytes of packets that the kernel gets back in one datagram; a longer
    // packet has a datagram of its own. Most datagrams then stay below a page; for larger datagrams
    // kernels may map memory (netlink_alloc_large_skb).
    VERDICT_RESTATED_TOGETHER = 3072,
};

enum verdict {
    VERDICT_ACCEPT,
    VERDICT_DROP,
    VERDICT_REJECT,  // reject, which is a drop to the kernel
    VERDICT_MARK,    // accept with a mark
    VERDICT_REPEAT,  // another pass through the hook
    VERDICT_REQUEUE, // transfer to a queue by its number: another queue, or the same once more
    VERDICT_COUNT
};

/// Packet that the kernel gets back with its verdict: the bytes that were read, with a correct
/// checksum (queue_restate).
struct verdict_restated {
    uint32_t index;    // index of the packet among the packets of the receive call
    uint32_t bytes;    // length of the packet in bytes
    uint32_t place;    // offset of the checksum from the IP header, in bytes
    uint16_t checksum; // checksum in host order
};

/// Run of packets with successive IDs and the same verdict, or a gap between IDs. Each run is sent
/// as one netlink message. A batch verdict of the kernel (nfqnl_recv_verdict_batch) applies to all
/// waiting packets up to its ID. Therefore the runs of a batch must be sent in order, and a run may
/// contain no ID that has another verdict.
struct verdict_run {
    uint32_t kernel; // verdict in the form of the kernel (NF_*), in host order
    bool has_mark;
    uint32_t mark; // mark in host order; 0 without has_mark
    uint32_t first_id;
    uint32_t last_id;
    uint32_t count; // number of packets; 0 for a gap
    // True for a gap: IDs up to last_id without a readable message, whose packets the kernel may
    // still hold.
    bool gap;
    bool is_restated; // true if the kernel gets the packet back; it is then alone in its run
    struct verdict_restated restated;
};

/// Verdicts for the packets of one receive call, and the state of the queue's IDs.
///
/// Theory of operation: the kernel increments the ID by one for each packet that it offers, and
/// sends the messages in that order. Therefore a skipped ID will never have a message. Usually the
/// kernel dropped the packet because the socket's buffer was full (it reports this overrun). But
/// the message may have been unreadable: then the packet waits in the kernel, and the next batch
/// verdict would apply to it. Therefore every gap gets the verdict of --fail malformed, in a
/// message of its own, before the verdict of the next ID.
struct verdict_batch {
    // Verdict for gaps (IDs without a readable message) in the form of the kernel (NF_*).
    uint32_t fail;
    // True if last_id is known. False if another process may have received packets: a gap then
    // covers all waiting packets before the next ID that is added.
    bool known;
    // Last ID that was added to the batch. All IDs up to it have a verdict after the batch is sent.
    uint32_t last_id;
    uint32_t nameless; // number of messages without a readable ID since last_id
    bool overrun;      // true if the kernel has reported lost packets since the last gap
    // Number of IDs since verdict_batch_clear that were skipped without an overrun or an unreadable
    // message.
    uint32_t gap_ids;
    size_t count; // number of runs
    size_t sent;  // number of runs that were sent
    struct verdict_run runs[VERDICT_RUNS_MAX];
};

/// Returns the verdict's name in reports, e.g. "accept".
const char *verdict_name(enum verdict verdict);

/// Returns a verdict in the form of the kernel (linux/netfilter.h).
/// - argument: queue number for VERDICT_REQUEUE, else ignored.
uint32_t verdict_kernel(enum verdict verdict, uint32_t argument);

/// Initialises a batch for a new queue, whose first packet has ID 1.
/// - gaps: verdict for IDs without a readable message.
void verdict_batch_begin(struct verdict_batch *batch, enum verdict gaps);

/// Marks the last ID as unknown. Must be called if another process may have received packets from
/// the queue.
void verdict_batch_forget(struct verdict_batch *batch);

/// Removes all runs from the batch. The last ID stays.
void verdict_batch_clear(struct verdict_batch *batch);

/// Records that the kernel has lost packets because the socket's buffer was full. The next gap then
/// does not count in gap_ids.
void verdict_batch_overrun(struct verdict_batch *batch);

/// Records a message whose packet ID is unreadable.
void verdict_batch_skip(struct verdict_batch *batch);

/// Adds a packet's verdict to the batch. If IDs were skipped or the last ID is unknown, first adds
/// a run for the gap. Extends the last run if it has the same verdict for the kernel (a drop for
/// reject) and the same mark, ends at the ID before the packet's, and is neither a gap nor gives a
/// packet back. Otherwise adds a run. IDs have 32 bits and wrap.
/// - argument: mark (host order) for VERDICT_MARK, queue number for VERDICT_REQUEUE, else ignored.
/// - Fails with -ENOBUFS if there is no room for two runs; the batch stays unchanged.
int verdict_batch_add(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                      uint32_t argument);

/// Adds the verdict of a packet that the kernel gets back, in a run of its own. Otherwise like
/// verdict_batch_add.
int verdict_batch_restate(struct verdict_batch *batch, uint32_t id, enum verdict verdict,
                          uint32_t argument, const struct verdict_restated *restated);

/// Adds a run for the messages without a readable ID after the last packet, if the last ID is
/// known. Must be called after the last packet. The n-th message after an ID has an ID that is at
/// least n higher. Therefore the run covers the next n IDs.
void verdict_batch_finish(struct verdict_batch *batch);

/// Returns true if the batch has unsent runs.
bool verdict_batch_unsent(const struct verdict_batch *batch);

/// Returns the number of unsent runs for the next datagram: at most `most`, with at most
/// VERDICT_RESTATED_TOGETHER bytes of packets that the kernel gets back. A longer packet has a
/// datagram of its own.
size_t verdict_batch_rest(const struct verdict_batch *batch, size_t most);

/// Changes the next unsent run to a drop: its packet does not fit into a message to the kernel.
void verdict_batch_withhold(struct verdict_batch *batch);

#endif
