// SPDX-License-Identifier: GPL-2.0-or-later
// The walk of one packet through the policy, kept for `explain`: chains entered and rules walked,
// in order.
#ifndef EXPLAIN_TRACE_H
#define EXPLAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/decide.h"

/// A chain that was entered, or a rule that was walked.
struct trace_item {
    bool is_chain;
    uint32_t depth;          // jumps and gotos taken on the way there
    struct decide_step step; // of a chain, only step.place
};

struct trace {
    size_t count;
    size_t room;
    bool failed; // there was no memory for all of it
    struct trace_item *items;
};

/// Makes a recorder that adds to the trace.
struct decide_recorder trace_recorder(struct trace *trace);

/// Empties the trace; what it holds stays for the next packet.
void trace_clear(struct trace *trace);

void trace_free(struct trace *trace);

/// The nearest miss: of the rules that did not match and that could have given another verdict, the
/// one with the most statements that held, the first of equals. A rule could have if it accepts,
/// drops or rejects and the packet got something else, or if it leads to another chain.
/// - Returns NULL if there is none.
const struct trace_item *trace_nearest_miss(const struct trace *trace, const struct policy *policy,
                                            enum verdict verdict);

#endif
