// SPDX-License-Identifier: GPL-2.0-or-later
// The loop for one queue: receive, parse, decide, answer, wait. One thread, which shares nothing
// but its counters and its stop flag. No allocation, lock or print between receiving and answering.
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ask.h"
#include "load.h"
#include "options.h"
#include "queue.h"
#include "stats.h"
#include "wait.h"

/// A worker. Must lie aligned to STATS_ALIGN, as struct stats asks for.
struct worker {
    struct stats stats; // first, for its alignment
    // As the kernel took them: receive_buffer is what it gives, gso is off if it doesn't know it.
    // Unchanged while the thread runs, so that readers may look.
    struct queue_settings settings;
    struct queue queue; // the thread's own
    struct ask ask;
    struct wait wait;
    struct verdict_batch batch;
    bool paper; // --profile paper: busy loop, everything accepted unread
    uint32_t spin_us;
    uint32_t coalesce_us;
    int cpu;      // to bind to, as the n-th of those allowed, in turn; -1 = none
    int stop_fd;  // eventfd that wakes the worker; -1 = none
    bool stop;    // set by worker_stop; atomic
    bool started; // there is a thread to join
    pthread_t thread;
    int error;               // the errno that ended the loop; 0 = it was stopped
    const char *failed_call; // with error
    struct ledger ledger;    // the last one, taken by the worker before it unbound the queue
};

/// The workers of all queues, side by side.
struct workers {
    struct worker *all;
    uint32_t count;
    struct ledger *ledgers; // one a worker, as workers_ledgers took them
};

/// Opens the queue and the eventfd.
/// - loaded: the policy; lives longer than the worker.
/// - index: the worker's place, which is added to the first queue's number.
/// - Returns 0, or -errno with failure filled in and everything closed.
int worker_open(struct worker *worker, const struct options *options, struct loaded *loaded,
                uint32_t index, struct failure *failure);

/// Starts the thread. If the loop ends by an error, the process is sent SIGTERM.
/// - Returns 0, or -errno with failure filled in.
int worker_start(struct worker *worker, struct failure *failure);

/// Tells the thread to stop: what it has taken is answered first. It unbinds and closes its
/// queue itself.
void worker_stop(struct worker *worker);

/// Waits for the thread's end, if it was started; worker->ledger and worker->error are valid
/// then.
void worker_join(struct worker *worker);

/// Closes what worker_open opened, as far as the thread has not.
void worker_close(struct worker *worker);

/// Takes the ledger of a worker: of up to STATS_READINGS_MAX readings the one with the least
/// left unexplained.
/// - running: its thread runs, so a batch may be in flight. Warns if /proc can't be read.
void worker_ledger(const struct worker *worker, bool running, struct ledger *ledger);

/// Opens all queues in order, then starts their threads.
/// - Returns 0, or -errno with failure filled in, everything stopped and freed.
int workers_start(struct workers *workers, const struct options *options, struct loaded *loaded,
                  struct failure *failure);

/// Stops the threads and waits for them.
/// - Returns the first worker whose loop ended by an error, or NULL.
const struct worker *workers_stop(struct workers *workers);

/// Fills in workers->ledgers: taken now if the threads are running, else those that they took
/// last.
void workers_ledgers(struct workers *workers, bool running);

/// Frees what workers_start made, once the threads are stopped.
void workers_free(struct workers *workers);

#endif
