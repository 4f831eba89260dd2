// SPDX-License-Identifier: GPL-2.0-or-later
// From records to lines: what the workers' rings have, told by the policy that decided, at a rate,
// to a sink and to clients; and what was missed. All of it is under the lock of events.
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
    EVENTS_POLICIES =
        2, // the policies that records can be about: the one at hand, and the one before
};

/// A policy generation.
struct events_known {
    uint32_t generation;
    const struct policy *policy;
    const struct compiled *compiled;
};

/// A client that follows.
struct events_tail {
    struct events_sink sink;
    uint32_t verdicts; // bits 1 << enum verdict
    bool packets;
};

struct events_gather {
    struct event_bell bell;
    bool can_be_wanted; // there is a sink, or a way for clients to come
    uint32_t ring_count;
    struct event_ring *rings;
    struct events_sink sink; // what it writes is the thread's own
    struct events_tail tails[EVENTS_TAILS_MAX];
    struct events_known known[EVENTS_POLICIES];
    struct interfaces interfaces;
    uint32_t rate;
    uint64_t tokens; // of --events-rate, in billionths of a line
    uint64_t refilled_ns;
    uint64_t left_out;  // lines left out since it was told last
    uint64_t lost_told; // of bell.lost
    uint64_t told_ns;
};

static inline bool events_gather_has_sink(const struct events_gather *gather) {
    return gather->sink.kind != EVENTS_SINK_NONE;
}

static inline bool events_gather_is_tail(const struct events_tail *tail) {
    return tail->sink.kind != EVENTS_SINK_NONE;
}

/// Makes the rings and what wakes. gather: zeroed.
/// - Returns 0 or -errno, with what there is left to events_gather_free.
int events_gather_make(struct events_gather *gather, const struct options *options);
void events_gather_free(struct events_gather *gather);

/// Sends the workers the wanted kinds of events.
void events_gather_want(struct events_gather *gather);

/// See events_policy; forgets all policies but the one named last.
void events_gather_know(struct events_gather *gather, uint32_t generation,
                        const struct policy *policy, const struct compiled *compiled);
void events_gather_forget(struct events_gather *gather);

/// Drains the rings. Returns whether there was anything.
bool events_gather_take(struct events_gather *gather);

/// Reports missed events, at most once a second. Returns whether something is still to be told.
bool events_gather_tell_missed(struct events_gather *gather, uint64_t now_ns);

/// Adds an event of the program's own.
void events_gather_tell(struct events_gather *gather, enum events_kind kind,
                        const struct events_facts *facts);

#endif
