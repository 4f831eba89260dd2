// SPDX-License-Identifier: GPL-2.0-or-later
// Control of a worker (a queue and the thread that answers its packets) by other threads.
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

/// Queue that is handed over to another process, with the counters of the queue's worker.
struct worker_handover {
    // Counters of the queue's worker. The first member, because of its alignment.
    struct stats stats;
    uint16_t number; // number of the queue
    struct queue_handover handover;
    uint64_t stalled; // number of packets that the guard answered
};

/// Parameters for opening workers.
struct worker_setup {
    const struct options *options;
    // Policy of the workers; must stay valid until they use another policy (worker_swap). reject
    // and rings must outlive the workers.
    struct loaded *loaded;
    const struct reject *reject; // sockets for the replies of `reject`; open if the policy rejects
    struct event_ring *rings;    // event rings, one for each worker
    // Queues to adopt, one per worker; NULL = the workers open their queues.
    struct worker_handover *taken;
};

/// Creates a worker without starting its thread. Opens or adopts the worker's queue, and opens the
/// eventfd that wakes the thread.
/// - index: index of the worker. The number of the worker's queue is the first queue's number plus
///   index.
/// - Returns 0, or -errno with failure filled in and everything closed and freed.
int worker_open(struct worker *worker, const struct worker_setup *setup, uint32_t index,
                struct failure *failure);

/// Sets the counters to the final values that another process had for the queue. Must be called
/// before the thread starts.
/// - counted: counters of the queue's worker in that process.
/// - stalled: number of the queue's packets that the guard answered.
void worker_go_on(struct worker *worker, const struct stats *counted, uint64_t stalled);

/// Starts the worker's thread. If the thread's loop ends with an error, the thread sends SIGTERM to
/// the process.
/// - Returns 0, or -errno with failure filled in.
int worker_start(struct worker *worker, struct failure *failure);

/// Records that the old firewall of an upgrade can't resume the queue any more: closing the queue
/// then also unbinds it.
void worker_confirm(struct worker *worker);

/// Requests the thread to switch to another policy before its next batch. The caller must keep the
/// old source until worker_has_swapped returns true.
/// - next: the new policy.
void worker_swap(struct worker *worker, struct evaluation_source *next);

/// Returns true if the thread uses the policy of the last swap, or has ended.
bool worker_has_swapped(const struct worker *worker);

/// Requests a page of connections from the thread, which fills in the page between two batches.
/// Returns 0, or -EAGAIN if the last request is still open or the thread has ended.
/// - from: slot in the connection table at which the page begins.
/// - undecided: true to list only connections whose names are undecided.
int worker_list(struct worker *worker, uint32_t from, bool undecided);

/// Returns the page of connections that worker_list requested; NULL until the thread has filled it
/// in.
const struct listing_page *worker_listed(const struct worker *worker);

/// Requests a sign of life from the thread's loop; worker_has_turned checks for it. Any thread may
/// call this function.
void worker_ask_turn(struct worker *worker);

/// Returns true if the thread's loop has begun a turn since the last worker_ask_turn, or has ended.
bool worker_has_turned(const struct worker *worker);

/// Requests the thread to end. The thread first answers the packets that it has received, and then
/// closes its queue. Closing unbinds the queue, unless the old firewall of an upgrade may still
/// resume the queue.
/// - keep_open: true if the queue must stay bound and open. The thread can then be started again.
void worker_stop(struct worker *worker, bool keep_open);

/// Waits until the thread has ended, if it was started. Then worker->ledger and worker->error are
/// valid.
void worker_join(struct worker *worker);

/// Returns the connections of the queue; NULL if the policy reads no names. The thread must not
/// run.
struct connections *worker_connections(struct worker *worker);

/// Closes the queue (unless the thread has closed it) and the descriptors that worker_open opened,
/// and frees worker->evaluation and worker->source.
void worker_close(struct worker *worker);

/// Fills in the ledger of a worker. Any thread may call it.
/// - If the worker's thread has ended: the ledger that the thread read last.
/// - If the thread runs: the best of up to STATS_READINGS_MAX readings, which has the fewest
///   unexplained packets. A batch may be in flight. Warns if no reading of /proc succeeds.
void worker_ledger(const struct worker *worker, struct ledger *ledger);

/// Adds packets that the guard answered instead of the worker to the worker's counter.
/// - packets: number of these packets.
/// - id: packet id of the last of these packets.
void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id);

#endif
