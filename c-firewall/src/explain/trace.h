// SPDX-License-Identifier: GPL-2.0-or-later
// Trace of one packet through the policy, for `explain`: chains that it entered and rules that it
// was compared with, in order.
#ifndef EXPLAIN_TRACE_H
#define EXPLAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/decide.h"

/// A chain that was entered, or a rule that was compared with the packet.
struct trace_item {
    bool is_chain;
    uint32_t depth;          // number of jumps and gotos on the way to the item
    struct decide_step step; // evaluation of a rule; for a chain, only its position (step.place)
};

struct trace {
    size_t count;
    size_t room;
    bool failed; // true if there was no memory for an item
    struct trace_item *items;
};

/// Returns callbacks for decide_trace: they append entered chains and compared rules to the trace.
struct decide_recorder trace_recorder(struct trace *trace);

/// Empties the trace; its memory is reused for the next packet.
void trace_clear(struct trace *trace);

void trace_free(struct trace *trace);

/// Returns the nearest miss: of the rules that did not match and could have given another verdict,
/// the rule with the most statements that held; of equal rules the first. A rule could have given
/// another verdict if it accepts, drops or rejects and the packet has a different verdict, if it
/// leads to another chain, or if it has a verdict map.
/// - Returns NULL if there is no such rule.
const struct trace_item *trace_nearest_miss(const struct trace *trace, const struct policy *policy,
                                            enum verdict verdict);

#endif
