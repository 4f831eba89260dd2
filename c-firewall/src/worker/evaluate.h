// SPDX-License-Identifier: GPL-2.0-or-later
// Evaluation of a packet by the policy: makes the policy's input, and executes the outcome except
// for the verdict: replies of `reject`, counters and events.
#ifndef WORKER_EVALUATE_H
#define WORKER_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/listing.h"
#include "engine/decide.h"
#include "engine/interface.h"
#include "engine/named.h"
#include "options/options.h"
#include "queue/queue.h"
#include "ruleset/load.h"
#include "worker/elements.h"
#include "worker/event.h"
#include "worker/reject.h"
#include "worker/stats.h"

/// A policy with the counters of one worker. The main thread creates and frees it; the worker
/// counts.
struct evaluation_source {
    struct loaded *loaded;          // policy, shared by all workers
    struct requirement requirement; // requirement of the policy; zeroed without a policy
    struct flow_counters counters;  // counters of the policy's rules, for this worker
};

/// State of one worker's evaluation.
struct evaluation {
    struct evaluation_source *source;
    const struct reject *reject; // sockets for the replies of `reject`, shared by all workers
    struct event_ring *ring;     // ring of events of the worker
    struct decide_settings decide;
    uint32_t stage; // bits of the mark for the class (--stage); 0 = the policy's verdict is final
    // Socket for elements of the kernel's sets that learn (--stage); -1 = they are this process's
    // alone.
    struct elements elements;
    // Bits of the mark that are set only once the names are final (--settled); 0 = none.
    uint32_t settled;
    struct interfaces interfaces; // cache of interface names, if the policy uses names
    bool ct_state_by_mark;        // true if the connection state is in the mark (--conntrack mark)
    // Connections of the queue, if the policy reads names; else NULL.
    struct connections *connections;
    struct asked *asked; // pending DNS queries of clients, if the policy reads names; else NULL
    // Results of connections that the worker's counters already include.
    uint64_t counted[NAMED_RESULT_COUNT];
    uint64_t now_ns; // time at which the current batch was received (CLOCK_MONOTONIC)
};

/// Creates a source with zeroed counters. loaded outlives it. Returns NULL if there is no memory.
struct evaluation_source *evaluate_source_make(struct loaded *loaded);

/// Frees a source. NULL is allowed.
void evaluate_source_free(struct evaluation_source *source);

/// Fills in a worker's evaluation, which owns elements from then on. All pointers must outlive it.
/// reject: open if the policy can reject. elements: open with --stage. Returns 0 or -ENOMEM.
int evaluate_init(struct evaluation *evaluation, const struct options *options,
                  struct evaluation_source *source, const struct reject *reject,
                  struct elements elements, struct event_ring *ring);

void evaluate_free(struct evaluation *evaluation);

/// Returns true if there is a policy.
bool evaluate_has_policy(const struct evaluation *evaluation);

/// Decides a packet, sends the replies of a reject, counts the outcome, and stores an event if one
/// is wanted.
void evaluate_packet(struct evaluation *evaluation, struct stats *stats,
                     const struct queue_packet *packet, const struct packet *parsed,
                     enum packet_status status, struct decide_outcome *outcome);

/// Fills in a page of the connection listing.
void evaluate_list(const struct evaluation *evaluation, uint64_t now_ns, struct listing_page *page);

/// Adds the connections' results since the last call to the worker's counters. Returns the number
/// of connections.
uint32_t evaluate_count_connections(struct evaluation *evaluation, struct stats *stats);

#endif
