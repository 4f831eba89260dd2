// SPDX-License-Identifier: GPL-2.0-or-later
// The loop for one queue: receive, parse, decide, answer, wait. One thread, which shares nothing
// but its counters and what it is told. No allocation, lock or print between receiving and
// answering.
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"
#include "queue/adopt.h"
#include "queue/queue.h"
#include "ruleset/load.h"
#include "worker/evaluate.h"
#include "worker/event.h"
#include "worker/stats.h"
#include "worker/wait.h"

/// A worker. Must lie aligned to STATS_ALIGN, as struct stats asks for.
struct worker {
    struct stats stats; // first, for its alignment
    // As the kernel took them: receive_buffer is what it gives, gso is off if it doesn't know it.
    // Unchanged while the thread runs, so that readers may look.
    struct queue_settings settings;
    struct queue queue; // the thread's own
    struct queue_handover
        handover; // what another process needs to adopt the queue; fd is the queue's
    struct evaluation evaluation;
    struct wait wait;
    struct verdict_batch batch;
    uint64_t verdicts[VERDICT_COUNT]; // of the batch: they count once the kernel has them
    uint32_t tries;                   // to send the batch, in vain
    enum verdict gaps;                // --fail malformed: for what no readable message tells of
    bool paper;                       // --profile paper: busy loop, everything accepted unread
    uint32_t spin_us;
    uint32_t coalesce_us;
    uint32_t last_id;    // of the packet received last; atomic
    uint32_t stalled_to; // id of the last packet that the guard answered; atomic
    uint64_t stalled;    // packets that the guard answered; atomic
    int cpu;             // to bind to, as the n-th of those allowed, in turn; -1 = none
    struct evaluation_source *source; // what the worker asks, as the main thread knows it
    int wake_fd;                      // eventfd that wakes the worker; -1 = none
    bool stop;                        // set by worker_stop; atomic
    bool keep_open;                   // with stop: the queue stays as it is
    bool swap;                        // set by worker_swap, cleared when next was taken; atomic
    struct evaluation_source *next;   // with turn
    bool started;                     // there is a thread to join
    pthread_t thread;
    bool ended;              // the thread is done, and what follows is valid; atomic
    int error;               // the errno that ended the loop; 0 = it was stopped
    const char *failed_call; // with error
    struct ledger ledger;    // the last one, taken by the worker before it unbound the queue
};

/// A queue that goes from one process to another, and what its worker counted. Must lie aligned to
/// STATS_ALIGN.
struct worker_handover {
    struct stats stats; // first, for its alignment
    uint16_t number;
    struct queue_handover handover;
    uint64_t stalled; // packets that the guard answered
};

/// What workers are made of.
struct worker_setup {
    const struct options *options;
    struct loaded *loaded;         // the policy; it, reject and rings live longer than the workers
    const struct reject *reject;   // open if the policy can ask for answers
    struct event_ring *rings;      // one a worker
    struct worker_handover *taken; // one a worker; NULL = the queues are opened, not taken over
};

/// Opens the queue, or takes it over, and the eventfd.
/// - index: the worker's place, which is added to the first queue's number.
/// - Returns 0, or -errno with failure filled in and everything closed and freed.
int worker_open(struct worker *worker, const struct worker_setup *setup, uint32_t index,
                struct failure *failure);

/// Has counters begin at what another process counted for the queue, before the thread starts.
void worker_go_on(struct worker *worker, const struct stats *counted, uint64_t stalled);

/// Starts the thread. If the loop ends by an error, the process is sent SIGTERM.
/// - Returns 0, or -errno with failure filled in.
int worker_start(struct worker *worker, struct failure *failure);

/// Tells the thread to ask another policy from its next batch on. The old source must be kept until
/// worker_has_swapped.
void worker_swap(struct worker *worker, struct evaluation_source *next);

/// Whether the thread asks what it was told last, or asks no more.
bool worker_has_swapped(const struct worker *worker);

/// Tells the thread to stop: what it has taken is answered first. It unbinds and closes its
/// queue itself.
/// - keep_open: it does not; the thread can be started again.
void worker_stop(struct worker *worker, bool keep_open);

/// Waits for the thread's end, if it was started; worker->ledger and worker->error are valid
/// then.
void worker_join(struct worker *worker);

/// Closes what worker_open opened, as far as the thread has not, and frees the source.
void worker_close(struct worker *worker);

/// Takes the ledger of a worker: of up to STATS_READINGS_MAX readings the one with the least
/// left unexplained.
/// - Once the thread has ended it is the one that the thread took last. While it runs a batch may
/// be
///   in flight. Warns if /proc can't be read. Any thread may.
void worker_ledger(const struct worker *worker, struct ledger *ledger);

/// Counts packets that the guard answered. id: of the last of them.
void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id);

#endif
