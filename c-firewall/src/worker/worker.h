// SPDX-License-Identifier: GPL-2.0-or-later
// A worker: one queue and its thread, as other threads see them.
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

/// A queue that goes from one process to another, and what its worker counted. Must lie aligned to
/// STATS_ALIGN.
struct worker_handover {
    struct stats stats; // first, for its alignment
    uint16_t number;
    struct queue_handover handover;
    uint64_t stalled; // packets that the guard answered
};

/// Parameters of workers.
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

/// Makes the thread decide by another policy from its next batch on. The old source must be kept
/// until worker_has_swapped.
void worker_swap(struct worker *worker, struct evaluation_source *next);

/// Whether the thread decides by what it was told last, or has ended.
bool worker_has_swapped(const struct worker *worker);

/// Asks the thread for a page of its connections, after its next batch. Returns 0, or -EAGAIN if it
/// has not answered the last one, or has ended.
int worker_list(struct worker *worker, uint32_t from, bool undecided);

/// The page that the thread was asked for; NULL as long as it has not answered.
const struct listing_page *worker_listed(const struct worker *worker);

/// Asks whether the thread's loop turns, for worker_has_turned. Any thread may.
void worker_ask_turn(struct worker *worker);

/// Whether the thread's loop has turned since it was asked, or has ended.
bool worker_has_turned(const struct worker *worker);

/// Stops the thread: the packets that it has received get their verdicts first. It unbinds and
/// closes its queue itself.
/// - keep_open: it does not; the thread can be started again.
void worker_stop(struct worker *worker, bool keep_open);

/// Waits for the thread's end, if it was started; worker->ledger and worker->error are valid
/// then.
void worker_join(struct worker *worker);

/// Connections of the queue, while there is no thread; NULL if the policy
/// reads no names.
struct connections *worker_connections(struct worker *worker);

/// Closes what worker_open opened, as far as the thread has not, and frees the source.
void worker_close(struct worker *worker);

/// Reads the ledger of a worker: of up to STATS_READINGS_MAX readings the one with the least
/// left unexplained.
/// - Once the thread has ended it is the one that the thread took last. While it runs a batch may
/// be
///   in flight. Warns if /proc can't be read. Any thread may.
void worker_ledger(const struct worker *worker, struct ledger *ledger);

/// Counts packets that the guard answered. id: of the last of them.
void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id);

#endif
