// SPDX-License-Identifier: GPL-2.0-or-later
// All workers of the process, one for each queue.
#ifndef WORKER_WORKERS_H
#define WORKER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/worker.h"

/// Workers in the order of their queues.
struct workers {
    struct worker *all;
    uint32_t count;
    // One for each worker, filled in by workers_ledgers; used by the main thread only.
    struct ledger *ledgers;
};

/// One page of the connection listing, from one worker.
struct listing {
    uint16_t number; // number of the worker's queue
    const struct listing_page *page;
    bool has_next; // false = this is the last page
    uint64_t next; // position of the next page, with has_next
};

/// Opens or adopts all queues in order.
/// - Returns 0, or -errno with failure filled in and all closed and freed.
int workers_open(struct workers *workers, const struct worker_setup *setup,
                 struct failure *failure);

/// Starts the threads of all workers. On failure all are stopped.
/// - Returns 0, or -errno with failure filled in and all threads stopped.
int workers_start(struct workers *workers, struct failure *failure);

/// Makes all workers adopt another policy, and waits until they have.
/// - sources: in: the policy, once for each worker; out: the old sources.
void workers_swap(struct workers *workers, struct evaluation_source **sources);

/// Fills in the page of connections at a position.
/// - from: 0, or next of the last page: the worker's index above SLOT_BITS, the slot below.
/// - undecided: only connections whose names are undecided.
/// - Returns 0 with listing valid until the next call; -EAGAIN if there is no such worker, or if
///   the worker does not answer in time.
int workers_list(struct workers *workers, uint64_t from, bool undecided, struct listing *listing);

/// Stops all threads and waits for their end.
/// - Returns the first worker whose loop ended with an error, or NULL.
const struct worker *workers_stop(struct workers *workers);

/// Fills in workers->ledgers, one for each worker.
void workers_ledgers(struct workers *workers);

/// Closes and frees what workers_open created. The threads must have ended.
void workers_free(struct workers *workers);

#endif
