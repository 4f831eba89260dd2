// SPDX-License-Identifier: GPL-2.0-or-later
// Counters, and the arithmetic of the loss ledger.
//
// Theory of operation: each worker writes its own counters, with a relaxed load and store (no other
// thread writes them, so no atomic addition is needed); readers load them relaxed. The kernel
// increments id_sequence first and queue_total or user_dropped last, and lets itself be read
// meanwhile, so a reader that comes between them sees too few or too many, which is gone with the
// next reading: who wants a ledger of a queue that packets come to reads it up to
// STATS_READINGS_MAX times until it reconciles (worker_ledger).
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
#include "worker/reject.h"

enum {
    STATS_READINGS_MAX = 16,  // of a queue's figures before a difference is believed
    STATS_PAUSE_NS = 2000000, // between readings at exit, when nobody waits for them
};

/// Distance by which (offered - user_drop) may lie behind received and still be told from a
/// 32-bit wrap.
#define STATS_BEHIND_MAX (UINT32_C(1) << 24)

/// Adds to a counter of the calling thread's own stats.
static inline void stats_add(uint64_t *counter, uint64_t amount) {
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

/// Packets received so far, with an id or without: what is compared with the kernel's count.
uint64_t stats_received(const struct stats *live);

/// Packets answered so far.
uint64_t stats_decided(const struct stats *live);

/// A counter of a running worker.
uint64_t stats_get(const uint64_t *counter);

/// Copies the counters of a running worker.
void stats_snapshot(const struct stats *live, struct stats *snapshot);

/// One reading of a queue, taken in the order of the fields.
struct stats_reading {
    uint64_t received_before;     // stats_received
    struct queue_figures figures; // the kernel's
    bool known;                   // they could be read
    struct stats after;           // stats_snapshot
    uint64_t stalled;             // packets that the guard answered
    bool unreceived;              // some of them may still be in the socket
};

/// The ledger of a queue, or the sum of several. It begins where the kernel gives a packet its id:
/// what was dropped before is not in it.
struct ledger {
    uint16_t number; // of the queue; without meaning in a sum
    struct stats stats;
    bool known;       // the kernel's figures are; else those that follow, but stalled, are 0
    uint64_t offered; // id_sequence, extended to 64 bits
    uint64_t waiting;
    uint64_t queue_full;
    uint64_t user_drop;
    uint64_t unseen;     // offered, but neither received, dropped, stalled nor waiting
    uint64_t stalled;    // answered by the guard, whether or not they were received later
    uint64_t lost;       // queue_full + user_drop: known, so no difference
    uint64_t difference; // packets unaccounted for
    bool reconciled;     // the kernel's figures are known, and difference is 0
};

/// Makes the ledger of one queue.
/// - in_flight: how many received packets may still be without a verdict: the batch of a
///   running worker, 0 at exit. With fail_open, unseen packets passed uninspected as they
///   should and are no difference. With reading->unreceived up to reading->stalled packets may be
///   missing for that reason: how many, nobody can tell.
void ledger_make(const struct stats_reading *reading, uint16_t number, uint64_t in_flight,
                 bool fail_open, struct ledger *ledger);

/// Adds a queue's ledger to a sum, which starts as {.known = true, .reconciled = true}.
void ledger_add(struct ledger *sum, const struct ledger *ledger);

#endif
