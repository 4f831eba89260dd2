// SPDX-License-Identifier: GPL-2.0-or-later
// The loop for one queue: receive, parse, decide, answer, wait. One thread, which shares nothing
// but its counters and its stop flag. No allocation, lock or print between receiving and answering.
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "decide.h"
#include "options.h"
#include "queue.h"
#include "stats.h"
#include "wait.h"

/// A worker. Must lie aligned to STATS_ALIGN, as struct stats asks for.
struct worker {
    struct stats stats; // first, for its alignment
    struct queue queue;
    struct decide_settings decide;
    struct wait wait;
    struct verdict_batch batch;
    bool paper; // --profile paper: busy loop, everything accepted unread
    uint32_t spin_us;
    uint32_t coalesce_us;
    int cpu;     // to bind to; -1 = none
    int stop_fd; // eventfd that wakes the worker; -1 = none
    bool stop;   // set by worker_stop; atomic
    pthread_t thread;
    int error;               // the errno that ended the loop; 0 = it was stopped
    const char *failed_call; // with error
    int figures_error;       // errno of reading the kernel's figures; 0 = none
    struct ledger ledger;    // the last one, taken by the worker before it unbound the queue
};

/// Opens the queue and the eventfd. index: the worker's place, for --pin.
/// Returns 0, or -errno with failure filled in and everything closed.
int worker_open(struct worker *worker, const struct options *options, uint32_t index,
                struct failure *failure);

/// Starts the thread. If the loop ends by itself, the process is sent SIGTERM. Returns 0 or -errno.
int worker_start(struct worker *worker);

/// Tells the thread to stop: what it has taken is answered first. It unbinds and closes its queue
/// itself.
void worker_stop(struct worker *worker);

/// Waits for the thread's end; worker->ledger and worker->error are valid then.
void worker_join(struct worker *worker);

/// Closes what worker_open opened, as far as the thread has not.
void worker_close(struct worker *worker);

/// Takes the ledger of a worker. running: its thread runs, so a batch may be in flight.
void worker_ledger(struct worker *worker, bool running, struct ledger *ledger);

#endif
