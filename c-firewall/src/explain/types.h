// SPDX-License-Identifier: GPL-2.0-or-later
// State of `explain`, and the current packet.
#ifndef EXPLAIN_TYPES_H
#define EXPLAIN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/asked.h"
#include "connection/types.h"
#include "engine/decide.h"
#include "explain/indexes.h"
#include "explain/trace.h"
#include "options/options.h"
#include "packet/packet.h"
#include "policy/policy.h"

/// Sums over all packets.
struct explain_sums {
    uint64_t packets;
    uint64_t accepted;
    uint64_t dropped;
    uint64_t rejected;
    uint64_t recorded;  // number of packets with a recorded verdict
    uint64_t different; // number of packets whose verdict differs from the recorded verdict
    uint64_t damaged;   // number of packets whose comment in the capture is invalid
};

/// A compiled policy with its state.
struct explain_engine {
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

/// Data of the command `explain`: its options, the policy with its two engines, sums, and the
/// current packet.
struct explain {
    // Options, with copy_bytes raised to the policy's need unless the command line sets it.
    struct options options;
    struct policy policy;
    enum policy_hook hook; // hook of packets whose metadata has no hook
    struct indexes indexes;
    struct options_facts facts;   // metadata of the current packet
    struct explain_engine daemon; // engine with indexes, as in the daemon
    struct explain_engine linear; // engine that evaluates every rule, without indexes
    struct explain_sums sums;
    uint64_t skipped;  // number of frames that are not IP
    uint64_t first_ns; // time of the first packet in the capture's order, in nanoseconds since 1970
    uint64_t now_ns;   // latest time of a packet so far, in nanoseconds since 1970
    uint64_t number;   // number of the packet's frame, from 1
    // Time from the first packet to this packet, in nanoseconds; negative if this packet is
    // earlier.
    int64_t time_ns;
    struct packet packet;
    enum packet_status status;
    struct decide_outcome outcome;
    bool has_connections; // true if the policy reads names
    struct connections connections;
    struct asked *asked; // pending DNS queries, if the policy learns; else NULL
    struct names shown;  // names that the client of the current packet has shown
    struct trace trace;
    bool has_reply; // true if the packet was rejected and the daemon would send a reply
    bool has_recorded;
    enum verdict recorded; // verdict that the capture records for the packet, if has_recorded
};

/// Returns true if the capture records a verdict for the packet, and the policy's verdict differs
/// from it.
bool explain_differs(const struct explain *explain);

/// Returns the name of the interface with an index number (explain/indexes); "" = none.
/// - context: the struct explain.
const char *explain_interface(void *context, uint32_t index);

/// Returns the position of a counter statement in the policy's text, and the counter's values.
/// - counter: number of the counter in the compiled policy.
/// - figures: out: the counter's values.
struct compile_place explain_counter(const struct explain *explain, uint32_t counter,
                                     struct flow_counter *figures);

#endif
