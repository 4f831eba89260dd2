// SPDX-License-Identifier: GPL-2.0-or-later
// The workers of all queues, as one.
#ifndef WORKER_WORKERS_H
#define WORKER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/worker.h"

/// Side by side.
struct workers {
    struct worker *all;
    uint32_t count;
    struct ledger *ledgers; // one a worker, as workers_ledgers took them: the main thread's
};

/// Connections of a worker.
struct listing {
    uint16_t number; // of the worker's queue
    const struct listing_page *page;
    bool has_next; // else it goes on nowhere
    uint64_t next; // where it goes on
};

/// Opens all queues in order.
/// - Returns 0, or -errno with failure filled in and all closed and freed.
int workers_open(struct workers *workers, const struct worker_setup *setup,
                 struct failure *failure);

/// Starts the threads.
/// - Returns 0, or -errno with failure filled in and all threads stopped.
int workers_start(struct workers *workers, struct failure *failure);

/// Has all workers ask another policy, and waits until they do.
/// - sources: one a worker; the old ones are put there instead.
void workers_swap(struct workers *workers, struct evaluation_source **sources);

/// The page of connections at a place, 0 or what next of the last one said: the worker in the upper
/// half, its slot in the lower.
/// - Returns 0 with listing good until the next call; or -EAGAIN if the worker is not there or does
///   not answer for a while.
int workers_list(struct workers *workers, uint64_t from, bool undecided, struct listing *listing);

/// Stops the threads and waits for them.
/// - Returns the first worker whose loop ended by an error, or NULL.
const struct worker *workers_stop(struct workers *workers);

/// Fills in workers->ledgers.
void workers_ledgers(struct workers *workers);

/// Closes and frees what workers_open made, once the threads are stopped.
void workers_free(struct workers *workers);

#endif
