// SPDX-License-Identifier: GPL-2.0-or-later
// What outlives one packet: limits and quotas, which all workers share (one atomic word each, no
// lock), and counters, which each worker has for itself.
#ifndef ENGINE_FLOW_H
#define ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"

/// The state of a limit or a quota. A rule that stays when a new policy replaces the old one has
/// the same word in both, so that no packet is forgotten while workers change over.
struct flow_word {
    union {
        int64_t empty_ns; // of a limit: since when its bucket has been filling; atomic
        uint64_t used;    // of a quota: bytes so far; atomic
    };
    uint32_t users; // policies that have it; for the main thread only, without a lock
};

/// The state of limits and quotas.
struct flow {
    uint32_t limits;
    struct flow_word **limit;
    uint32_t quotas;
    struct flow_word **quota;
};

struct flow_counter {
    uint64_t packets, bytes;
};

/// The counters of one worker: written by its thread alone, read by any. Numbered as compile
/// numbers them.
struct flow_counters {
    uint32_t counters;
    struct flow_counter *counter;
    uint32_t logs;
    uint64_t *logged; // packets
};

/// Makes the state of a policy: full buckets, and quotas of which as much is used as the text says.
/// - Returns 0 or -ENOMEM with *flow zeroed.
int flow_make(struct flow *flow, const struct compiled *compiled);
void flow_free(struct flow *flow);

/// Replaces a word by another flow's, before its first use.
void flow_share(struct flow_word **place, struct flow_word *word);

/// Makes counters that stand at 0: what the text gives them comes on top once, see flow_sum.
/// - Returns 0 or -ENOMEM with *counters zeroed.
int flow_counters_make(struct flow_counters *counters, const struct compiled *compiled);
void flow_counters_free(struct flow_counters *counters);

/// Adds a packet to a counter of the worker's own.
void flow_count(struct flow_counters *counters, uint32_t counter, uint32_t bytes);

/// Adds a packet to a log statement's.
void flow_log(struct flow_counters *counters, uint32_t log);

/// Adds the worker's counter to sum. Any thread may.
void flow_sum(const struct flow_counters *counters, uint32_t counter, struct flow_counter *sum);

/// The worker's packets of a log statement. Any thread may.
uint64_t flow_logged(const struct flow_counters *counters, uint32_t log);

/// Whether a limit statement lets a packet through, which takes its tokens.
bool flow_limit_holds(struct flow *flow, uint32_t index, const struct flow_limit *limit,
                      uint32_t bytes, uint64_t now_ns);

/// How full the bucket of a limit is: from 0 to its size.
int64_t flow_limit_tokens(const struct flow_word *word, const struct flow_limit *limit,
                          uint64_t now_ns);

/// Fills the bucket of a limit to the same part of its size as another's.
/// - tokens: the other's, from 0 to size, which is more than 0.
void flow_limit_fill(struct flow_word *word, const struct flow_limit *limit, int64_t tokens,
                     int64_t size, uint64_t now_ns);

/// Whether a quota statement lets a packet through; its bytes count in any case.
bool flow_quota_holds(struct flow *flow, uint32_t index, const struct flow_quota *quota,
                      uint32_t bytes);

#endif
