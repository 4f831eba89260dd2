// SPDX-License-Identifier: GPL-2.0-or-later
// Conversion of records to lines: removes the records from the workers' rings, resolves their
// numbers by the policy that decided, limits the rate, adds the lines to the sink and to clients,
// and counts missed events. The lock of events guards all of its state.
#ifndef EVENTS_GATHER_H
#define EVENTS_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/interface.h"
#include "events/sink.h"
#include "events/types.h"
#include "options/options.h"
#include "worker/event.h"

enum {
    // Maximum number of policies to which records can refer: the current and the previous policy.
    EVENTS_POLICIES = 2,
};

/// A policy with its generation.
struct events_known {
    uint32_t generation;
    const struct policy *policy;
    const struct compiled *compiled;
};

/// A client that receives events (`tail`).
struct events_tail {
    struct events_sink sink;
    uint32_t verdicts; // verdicts whose events the client requests, as bits 1 << enum verdict
    bool packets;
};

struct events_gather {
    struct event_bell bell;
    // True if events can be requested: by --events, or by clients of a control socket.
    bool can_be_wanted;
    uint32_t ring_count;
    struct event_ring *rings;
    struct events_sink sink; // sink of --events
    struct events_tail tails[EVENTS_TAILS_MAX];
    struct events_known known[EVENTS_POLICIES];
    struct interfaces interfaces;
    uint32_t rate;
    uint64_t tokens; // tokens of --events-rate, in billionths of a line
    uint64_t refilled_ns;
    uint64_t left_out;  // number of lines left out because of --events-rate since the last report
    uint64_t lost_told; // number of events in bell.lost that have been reported
    uint64_t told_ns;
};

static inline bool events_gather_has_sink(const struct events_gather *gather) {
    return gather->sink.kind != EVENTS_SINK_NONE;
}

static inline bool events_gather_is_tail(const struct events_tail *tail) {
    return tail->sink.kind != EVENTS_SINK_NONE;
}

/// Creates the workers' rings, and the eventfd that wakes the events thread.
/// - gather: zeroed.
/// - Returns 0 or -errno; in both cases events_gather_free frees it.
int events_gather_make(struct events_gather *gather, const struct options *options);
void events_gather_free(struct events_gather *gather);

/// Sets the classes of events that the workers record: those that at least one sink requests.
void events_gather_want(struct events_gather *gather);

/// Adds a policy to which records can refer (events_policy). Removes the oldest policy of more than
/// EVENTS_POLICIES.
void events_gather_know(struct events_gather *gather, uint32_t generation,
                        const struct policy *policy, const struct compiled *compiled);

/// Removes all policies to which records can refer, except the latest.
void events_gather_forget(struct events_gather *gather);

/// Converts all records in the workers' rings to lines. Returns true if there were any.
bool events_gather_convert(struct events_gather *gather);

/// Reports missed events, at most once a second. Returns false if no events were missed since the
/// last report.
bool events_gather_tell_missed(struct events_gather *gather, uint64_t now_ns);

/// Adds the line of an event about the program itself to all sinks.
void events_gather_tell(struct events_gather *gather, enum events_kind kind,
                        const struct events_facts *facts);

#endif
