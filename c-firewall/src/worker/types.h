// SPDX-License-Identifier: GPL-2.0-or-later
// What a worker is made of.
#ifndef WORKER_TYPES_H
#define WORKER_TYPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "connection/listing.h"
#include "packet/verdict.h"
#include "queue/adopt.h"
#include "queue/queue.h"
#include "worker/evaluate.h"
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
    uint32_t tries;                   // how often sending the batch was tried in vain
    enum verdict gaps;                // --fail malformed: for what no readable message tells of
    bool paper;                       // --profile paper: busy loop, everything accepted unread
    uint32_t spin_us;
    uint32_t coalesce_us;
    uint32_t last_id;    // of the packet received last; atomic
    uint32_t stalled_to; // id of the last packet that the guard answered; atomic
    uint64_t stalled;    // packets that the guard answered; atomic
    uint32_t followed;   // connections that it follows, behind its last batch; atomic
    int cpu;             // to bind to, as the n-th of those allowed, in turn; -1 = none
    struct evaluation_source
        *source;    // the policy by which the worker decides, as the main thread knows it
    int wake_fd;    // eventfd that wakes the worker; -1 = none
    bool stop;      // set by worker_stop; atomic
    bool keep_open; // with stop: the queue stays as it is
    bool swap;      // set by worker_swap, cleared when next was taken; atomic
    struct evaluation_source *next; // with swap
    bool lists;                     // set by worker_list, cleared when page is filled in; atomic
    struct listing_page page;       // with lists
    bool asked;   // set by worker_ask_turn, cleared by the loop's next turn; atomic
    bool started; // there is a thread to join
    pthread_t thread;
    bool ended;              // the thread is done, and what follows is valid; atomic
    int error;               // the errno that ended the loop; 0 = it was stopped
    const char *failed_call; // with error
    struct ledger ledger;    // the last one, taken by the worker before it unbound the queue
};

#endif
