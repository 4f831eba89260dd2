// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of a worker, and the arithmetic of the loss ledger.
//
// Theory of operation: each worker writes its own counters with a relaxed load and store. No other
// thread writes them, so that no atomic addition is needed. Readers load them relaxed. For each
// packet the kernel increments id_sequence first, and queue_total or user_dropped last. A reading
// of the kernel's figures between these two steps has too few or too many packets; the next reading
// corrects it. Therefore the ledger of a queue that receives packets is read up to
// STATS_READINGS_MAX times, until it reconciles (worker_ledger).
#ifndef WORKER_STATS_H
#define WORKER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/named.h"
#include "engine/teach.h"
#include "packet/packet.h"
#include "packet/verdict.h"
#include "queue/proc.h"
#include "spec/counter.h"
#include "worker/elements.h"
#include "worker/reject.h"

enum {
    // Maximum number of readings of a queue's counters in /proc before a difference is reported.
    STATS_READINGS_MAX = 16,
    STATS_PAUSE_NS = 2000000, // pause between readings at exit, in nanoseconds
};

/// Maximum number of packets by which the kernel's 32-bit count (offered - user_drop) may be below
/// the worker's count (received). A larger difference means that the kernel's count has wrapped,
/// and is above the worker's count.
#define STATS_BEHIND_MAX (UINT32_C(1) << 24)

/// Adds an amount to a counter that only the calling thread writes.
/// - counter: in/out: the counter.
static inline void stats_add(uint64_t *counter, uint64_t amount) {
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

/// Returns the number of packets received so far, with or without a readable id. The kernel's count
/// of packets is compared with it.
uint64_t stats_received(const struct stats *live);

/// Returns the number of packets answered so far.
uint64_t stats_decided(const struct stats *live);

/// Loads a counter of a running worker.
uint64_t stats_get(const uint64_t *counter);

/// Copies the counters of a running worker.
void stats_snapshot(const struct stats *live, struct stats *snapshot);

/// One reading of a worker's counters and of the kernel's counters of its queue. The values are
/// read in the order of the fields.
struct stats_reading {
    uint64_t received_before; // result of stats_received from before the kernel's figures were read
    struct queue_figures figures; // the kernel's counters of the queue, from /proc
    bool known;                   // true if the kernel's counters could be read
    struct stats after;           // counters of the worker after the kernel's figures were read
    uint64_t stalled;             // number of packets that the guard answered (stalled packets)
    bool unreceived;              // true if some of the stalled packets may still be in the socket
};

/// Loss ledger of a queue, or the sum of several ledgers: received packets, verdicts and losses,
/// which must add up. It includes all packets to which the kernel has assigned an id, and those
/// that it has dropped because the queue was full.
struct ledger {
    uint16_t number; // number of the queue; meaningless in a sum
    struct stats stats;
    // True if the kernel's counters of the queue (in a sum: of all queues) could be read. Otherwise
    // a queue's ledger has 0 in the fields after `known`, except stalled and difference.
    bool known;
    // Number of packets that the kernel offered: its id_sequence, extended to 64 bits.
    uint64_t offered;
    // Number of packets in the kernel's queue: not yet received, or without a verdict.
    uint64_t waiting;
    uint64_t queue_full; // number of packets that the kernel dropped because the queue was full
    // Number of packets that the kernel dropped because the socket's buffer was full.
    uint64_t user_drop;
    // Number of packets that were offered, but neither received, dropped, stalled nor waiting.
    uint64_t unseen;
    // Number of packets answered by the guard, whether or not the worker received them later.
    uint64_t stalled;
    // Number of packets lost for a known reason: queue_full + user_drop. They don't count as
    // difference.
    uint64_t lost;
    // Number of packets for which the ledger does not account: received but not answered, answered
    // but not received, received but not offered, or unseen (without fail-open).
    uint64_t difference;
    bool reconciled; // true if the kernel's counters could be read and difference is 0
};

/// Computes the ledger of one queue.
/// - in_flight: maximum number of received packets without a verdict: the batch of a running
///   worker, 0 at exit.
/// - fail_open: true if the kernel accepts packets when the queue is full. Unseen packets then
///   don't count as difference.
/// - reading->unreceived: true if up to reading->stalled packets may be missing because they are
///   still in the socket.
void ledger_make(const struct stats_reading *reading, uint16_t number, uint64_t in_flight,
                 bool fail_open, struct ledger *ledger);

/// Adds a queue's ledger to a sum. The sum's initial value is {.known = true, .reconciled = true}.
void ledger_add(struct ledger *sum, const struct ledger *ledger);

#endif
