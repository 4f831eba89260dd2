// SPDX-License-Identifier: GPL-2.0-or-later
// Control of a worker (one queue and its thread) by other threads.
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"
#include "queue/adopt.h"
#include "ruleset/load.h"
#include "worker/evaluate.h"
#include "worker/event.h"
#include "worker/stats.h"
#include "worker/types.h"

/// Queue that one process hands over to another, with its worker's counters.
struct worker_handover {
    struct stats stats; // first, for its alignment
    uint16_t number;    // number of the queue
    struct queue_handover handover;
    uint64_t stalled; // number of packets that the guard answered
};

/// Parameters for opening workers.
struct worker_setup {
    const struct options *options;
    struct loaded *loaded;       // policy; it, reject and rings must outlive the workers
    const struct reject *reject; // sockets for the replies of `reject`, if the policy can reject
    struct event_ring *rings;    // rings of events, one for each worker
    // Queues to adopt, one for each worker; NULL = the queues are opened.
    struct worker_handover *taken;
};

/// Creates a worker without its thread: opens or adopts its queue, and opens the eventfd that wakes
/// it.
/// - index: index of the worker; the number of its queue is the first queue's number plus index.
/// - Returns 0, or -errno with failure filled in and everything closed and freed.
int worker_open(struct worker *worker, const struct worker_setup *setup, uint32_t index,
                struct failure *failure);

/// Sets the counters to the values that another process counted for the queue; called before the
/// thread starts.
void worker_go_on(struct worker *worker, const struct stats *counted, uint64_t stalled);

/// Starts the worker's thread. If its loop ends with an error, the thread sends SIGTERM to the
/// process.
/// - Returns 0, or -errno with failure filled in.
int worker_start(struct worker *worker, struct failure *failure);

/// Requests that the thread decide by the policy next from its next batch on. The old source must
/// be kept until worker_has_swapped returns true.
void worker_swap(struct worker *worker, struct evaluation_source *next);

/// Returns true if the thread has adopted the policy of the last swap, or has ended.
bool worker_has_swapped(const struct worker *worker);

/// Requests a page of connections from the thread, which fills it in after its next batch. Returns
/// 0, or -EAGAIN if the last request is still open, or if the thread has ended.
/// - from: slot of the first connection.
/// - undecided: only connections whose names are undecided.
int worker_list(struct worker *worker, uint32_t from, bool undecided);

/// Returns the page of connections that worker_list requested; NULL until the thread has filled it
/// in.
const struct listing_page *worker_listed(const struct worker *worker);

/// Requests a sign of life from the thread's loop; worker_has_turned checks for it. Any thread may
/// call it.
void worker_ask_turn(struct worker *worker);

/// Returns true if the thread's loop has turned since the last worker_ask_turn, or has ended.
bool worker_has_turned(const struct worker *worker);

/// Requests the thread's end. The thread first answers the packets that it has received, then
/// unbinds and closes its queue.
/// - keep_open: the queue stays bound and open, and the thread can be started again.
void worker_stop(struct worker *worker, bool keep_open);

/// Waits until the thread has ended, if it was started. Then worker->ledger and worker->error are
/// valid.
void worker_join(struct worker *worker);

/// Returns the connections of the queue; NULL if the policy reads no names. The thread must not
/// run.
struct connections *worker_connections(struct worker *worker);

/// Closes what worker_open opened, except what the thread has closed, and frees the source.
void worker_close(struct worker *worker);

/// Fills in the ledger of a worker.
/// - Thread ended: the ledger that the thread read last.
/// - Thread running: of up to STATS_READINGS_MAX readings the one with the fewest unexplained
///   packets; a batch may be in flight. Warns if /proc can't be read.
/// - Any thread may call it.
void worker_ledger(const struct worker *worker, struct ledger *ledger);

/// Counts packets that the guard answered instead of the worker.
/// - id: packet id of the last of them.
void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id);

#endif
