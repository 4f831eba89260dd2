// SPDX-License-Identifier: GPL-2.0-or-later
// What a worker tells the policy of a packet, and what it does with the outcome besides the
// verdict: the answers of `reject`, counting, and events.
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
#include "worker/event.h"
#include "worker/reject.h"
#include "worker/stats.h"

/// A policy as one worker asks it. The main thread makes and frees it; the worker counts.
struct evaluation_source {
    struct loaded *loaded;          // the policy, which all workers share
    struct requirement requirement; // of the policy; zeroed without one
    struct flow_counters counters;  // of the policy
};

/// State of one worker's evaluation.
struct evaluation {
    struct evaluation_source *source;
    const struct reject *reject; // the sockets of replies, which all workers share
    struct event_ring *ring;     // the worker's ring of events
    struct decide_settings decide;
    uint32_t stage;               // --stage; 0 = the policy decides
    uint32_t settled;             // --settled
    struct interfaces interfaces; // the interfaces by name, if the policy uses names
    bool ct_state_by_mark;        // --conntrack mark
    // Of the queue, if the policy reads names; else NULL.
    struct connections *connections;
    struct asked *asked;                  // the questions that wait for an answer; likewise
    uint64_t counted[NAMED_RESULT_COUNT]; // what the counters have already
    uint64_t now_ns;                      // when the batch at hand was received
};

/// loaded lives longer. NULL = no memory.
struct evaluation_source *evaluate_source_make(struct loaded *loaded);

/// NULL can be given as well.
void evaluate_source_free(struct evaluation_source *source);

/// What is pointed to lives longer. reject: open if the policy can ask for answers. Returns 0 or
/// -ENOMEM.
int evaluate_init(struct evaluation *evaluation, const struct options *options,
                  struct evaluation_source *source, const struct reject *reject,
                  struct event_ring *ring);

void evaluate_free(struct evaluation *evaluation);

/// Whether there is a policy to ask.
bool evaluate_has_policy(const struct evaluation *evaluation);

/// Lets the policy decide, or what holds without one; sends the answer of a reject, counts what
/// came of it, and notes it if somebody wants to know.
void evaluate_packet(struct evaluation *evaluation, struct stats *stats,
                     const struct queue_packet *packet, const struct packet *parsed,
                     enum packet_status status, struct decide_outcome *outcome);

/// Fills in a page of the connections.
void evaluate_list(const struct evaluation *evaluation, uint64_t now_ns, struct listing_page *page);

/// Adds what has come of connections since it was last called to the counters. Returns how many
/// there are.
uint32_t evaluate_count_connections(struct evaluation *evaluation, struct stats *stats);

#endif
