// SPDX-License-Identifier: GPL-2.0-or-later
// Evaluation of a packet by the policy. Creates the policy's input, and executes the outcome except
// for the verdict: sends replies of `reject`, and updates counters and events.
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

/// Policy as one worker uses it, with the worker's counters. The main thread creates and frees it;
/// only the worker writes the counters.
struct evaluation_source {
    struct loaded *loaded;          // policy, shared by all workers
    struct requirement requirement; // packet data that the policy needs; zeroed without a policy
    struct flow_counters counters;  // counters of the policy's rules, for this worker
};

/// State of a worker that decides packets.
struct evaluation {
    struct evaluation_source *source;
    // Sockets for the replies of `reject`, shared by all workers; -1 without a policy, or if
    // opening them failed.
    const struct reject *reject;
    struct event_ring *ring; // event ring of the worker
    struct decide_settings decide;
    // Bits of the mark for the class (--stage); 0 = the policy's verdict is given to the kernel.
    uint32_t stage;
    // Netlink socket that adds learned addresses to the kernel's sets (--stage). -1: only this
    // process stores them.
    struct elements elements;
    // Bits of the mark that are set only if the server has acknowledged the final names
    // (--settled); 0 = none.
    uint32_t settled;
    // Cache of interface names, used if the policy reads interface names.
    struct interfaces interfaces;
    bool ct_state_by_mark; // true if the connection state is in the packet mark (--conntrack mark)
    // Connections of the queue, if the worker's first policy reads names or learns addresses; else
    // NULL.
    struct connections *connections;
    // Pending DNS queries of clients, if the worker's first policy reads names or learns addresses;
    // else NULL.
    struct asked *asked;
    // Counters of connections (named_results) when their increases were last added to the worker's
    // counters.
    uint64_t counted[NAMED_RESULT_COUNT];
    // True if the last packet was accepted and the kernel must get it back with a correct checksum.
    bool is_restated;
    // Correct checksum of the last packet; valid with is_restated.
    struct verdict_restated restated;
    uint64_t now_ns; // time at which the current batch was received (CLOCK_MONOTONIC)
};

/// Creates a worker's source: a reference to the policy, which all workers share, and zeroed
/// counters of its own. loaded must outlive the source. Returns NULL if there is no memory.
struct evaluation_source *evaluate_source_make(struct loaded *loaded);

/// Frees a worker's source with its counters; does nothing for NULL.
void evaluate_source_free(struct evaluation_source *source);

/// Fills in the state of a worker that decides packets; the state owns elements from then on, and
/// closes it on failure. reject and ring must outlive the state; source must stay valid until
/// another source replaces it. Returns 0 or -ENOMEM.
/// - reject: sockets for replies; open if the policy can reject.
/// - elements: socket for the kernel's sets; open with --stage.
int evaluate_init(struct evaluation *evaluation, const struct options *options,
                  struct evaluation_source *source, const struct reject *reject,
                  struct elements elements, struct event_ring *ring);

void evaluate_free(struct evaluation *evaluation);

/// Returns true if there is a policy.
bool evaluate_has_policy(const struct evaluation *evaluation);

/// Decides a packet, sends replies, updates all counters but that of the verdict, and stores an
/// event if a consumer wants it. Stores no event for a packet from which addresses are only learned
/// (--stage).
/// - outcome: out: outcome of the packet.
void evaluate_packet(struct evaluation *evaluation, struct stats *stats,
                     const struct queue_packet *packet, const struct packet *parsed,
                     enum packet_status status, struct decide_outcome *outcome);

/// Fills in a page of the connection listing; page->from is the slot at which the page begins.
void evaluate_list(const struct evaluation *evaluation, uint64_t now_ns, struct listing_page *page);

/// Adds to the worker's counters the increases of the counters of connections (named_results) since
/// the last call. Returns the current number of followed connections.
uint32_t evaluate_count_connections(struct evaluation *evaluation, struct stats *stats);

#endif
