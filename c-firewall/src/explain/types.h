// SPDX-License-Identifier: GPL-2.0-or-later
// What `explain` works with and the packet at hand, for the walk and for those who print it.
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

/// The sums over all packets.
struct explain_sums {
    uint64_t packets;
    uint64_t accepted;
    uint64_t dropped;
    uint64_t rejected;
    uint64_t recorded;  // packets whose verdict was recorded
    uint64_t different; // packets whose verdict differs from the recorded one
    uint64_t damaged;   // comments that could not be read
};

/// A policy compiled, with its state.
struct explain_engine {
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

/// State of `explain`, and the current packet.
struct explain {
    struct options options; // as given, with as many bytes copied as the policy reads
    struct policy policy;
    enum policy_hook hook; // hook of packets without a comment
    struct indexes indexes;
    struct options_facts facts;   // metadata of the current packet
    struct explain_engine daemon; // as the daemon has it
    struct explain_engine linear; // rule by rule
    struct explain_sums sums;
    uint64_t skipped;  // frames that are not IP
    uint64_t first_ns; // when the first packet came
    uint64_t now_ns;   // the time of the latest packet so far
    uint64_t number;   // of the packet's frame, from 1
    int64_t time_ns;   // of the packet, since the first
    struct packet packet;
    enum packet_status status;
    struct decide_outcome outcome;
    bool has_connections; // the policy reads names
    struct connections connections;
    struct asked *asked; // if the policy learns; else NULL
    struct names shown;  // names that the client of the current packet has shown
    struct trace trace;
    bool has_reply; // a reject whose reply is due
    bool has_recorded;
    enum verdict recorded; // the verdict that was recorded
};

/// Whether the packet's verdict is another than the recorded one.
bool explain_differs(const struct explain *explain);

/// The name of the interface that has this index here; "" = none. context: the struct explain.
const char *explain_interface(void *context, uint32_t index);

/// Position of a counter in the policy's text, and its figures.
struct compile_place explain_counter(const struct explain *explain, uint32_t counter,
                                     struct flow_counter *figures);

#endif
