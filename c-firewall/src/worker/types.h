// SPDX-License-Identifier: GPL-2.0-or-later
// Types of a worker: a queue, and the thread that answers the queue's packets.
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

/// Worker: a queue, its state and its thread. The memory of this struct must be aligned to
/// STATS_ALIGN, as struct stats requires.
struct worker {
    // Counters of the worker. The first member, because of its alignment.
    struct stats stats;
    // Settings of the queue that are in effect. receive_buffer is the size that the kernel granted;
    // gso is false if the kernel does not support it. Constant while the thread runs, so that other
    // threads may read them.
    struct queue_settings settings;
    // Queue. While the worker's thread runs, only the thread uses it.
    struct queue queue;
    // Socket and kernel configuration of the queue, which another process needs to adopt the queue.
    struct queue_handover handover;
    struct evaluation evaluation;
    struct wait wait;
    struct verdict_batch batch;
    // Number of packets in the batch for each verdict. It is added to stats after the kernel has
    // accepted the batch.
    uint64_t verdicts[VERDICT_COUNT];
    uint32_t tries;    // number of failed attempts to send the current batch of verdicts
    enum verdict gaps; // verdict for packet ids without a readable message (--fail malformed)
    // True for --profile paper: a busy loop that accepts packets without parsing them, unless their
    // messages are malformed.
    bool paper;
    uint32_t spin_us;     // value of --spin in microseconds
    uint32_t coalesce_us; // value of --coalesce in microseconds
    uint32_t last_id;     // packet id of the last received packet; atomic
    uint32_t stalled_to;  // packet id of the last packet that the guard answered; atomic
    uint64_t stalled;     // number of packets that the guard answered; atomic
    uint32_t followed;    // number of followed connections after the last batch; atomic
    // CPU of the thread (--pin), as an index into the list of allowed CPUs, modulo the list's
    // length; -1 = any CPU.
    int cpu;
    // Policy that the main thread last gave to the worker, with the worker's counters.
    struct evaluation_source *source;
    int wake_fd; // eventfd that wakes the worker's thread from poll; -1 = none
    bool stop;   // request to end the loop, set by worker_stop; atomic
    // Valid with stop: true if the thread must leave the queue bound and open when it ends.
    bool keep_open;
    // False while the old firewall of an upgrade may resume the queue, which then stays bound when
    // the thread ends; atomic.
    bool confirmed;
    // Request to decide by the policy in next: set by worker_swap, cleared when the thread uses
    // that policy; atomic.
    bool swap;
    // New policy, valid with swap.
    struct evaluation_source *next;
    // Request to fill in page with connections: set by worker_list, cleared when the thread has
    // filled in the page; atomic.
    bool lists;
    // Page of the connection listing: the client's request while lists is true, then the result.
    struct listing_page page;
    // Request for a sign of life: set by worker_ask_turn, cleared in the next turn of the thread's
    // loop; atomic.
    bool asked;
    bool started; // true if the thread was started and must be joined
    pthread_t thread;
    // True if the thread has ended. Then error, failed_call and ledger are valid. Atomic.
    bool ended;
    int error;               // errno that ended the loop; 0 = the thread was stopped
    const char *failed_call; // name of the system call that failed with error
    // Last ledger of the worker. It was read before the queue was unbound.
    struct ledger ledger;
};

#endif
