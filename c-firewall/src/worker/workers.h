// SPDX-License-Identifier: GPL-2.0-or-later
// All workers of the process. Each queue has one worker.
#ifndef WORKER_WORKERS_H
#define WORKER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/worker.h"

/// Workers in the order of their queues.
struct workers {
    struct worker *all;
    uint32_t count;
    // Ledgers that workers_ledgers fills in, one per worker; only the main thread uses them.
    struct ledger *ledgers;
};

/// Page of the connection listing, from one worker.
struct listing {
    uint16_t number; // number of the worker's queue
    const struct listing_page *page;
    bool has_next; // false = this is the last page
    uint64_t next; // position of the next page, if has_next
};

/// Opens or adopts all queues, in the order of their numbers.
/// - Returns 0, or -errno with failure filled in and all workers closed and freed.
int workers_open(struct workers *workers, const struct worker_setup *setup,
                 struct failure *failure);

/// Starts the threads of all workers.
/// - Returns 0, or -errno with failure filled in and all threads stopped.
int workers_start(struct workers *workers, struct failure *failure);

/// Records that the old firewall of an upgrade can't resume the queues any more: closing the queues
/// then also unbinds them.
void workers_confirm(struct workers *workers);

/// Makes all workers switch to another policy, and waits until they use it.
/// - sources: in: the new policy for each worker; out: the workers' old policies with their
///   counters.
void workers_swap(struct workers *workers, struct evaluation_source **sources);

/// Fills in the page of connections at a position.
/// - from: position: 0, or next of the previous page. The low SLOT_BITS bits are the slot, the bits
///   above are the worker's index.
/// - undecided: true to list only connections whose names are undecided.
/// - Returns 0 with listing valid until the next call, or -EAGAIN if the position's worker does not
///   exist or does not answer in time.
int workers_list(struct workers *workers, uint64_t from, bool undecided, struct listing *listing);

/// Stops all threads, and waits until they have ended.
/// - Returns the first worker whose loop ended with an error, or NULL.
const struct worker *workers_stop(struct workers *workers);

/// Fills in workers->ledgers, one ledger per worker.
void workers_ledgers(struct workers *workers);

/// Closes and frees all workers. The threads must have ended.
void workers_free(struct workers *workers);

#endif
