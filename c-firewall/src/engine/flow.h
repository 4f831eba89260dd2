// SPDX-License-Identifier: GPL-2.0-or-later
// State that outlives a packet: limits and quotas, which all workers share (one atomic word each,
// no lock), and counters, of which each worker has its own.
#ifndef ENGINE_FLOW_H
#define ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"

/// State of a limit or a quota. A rule that both the old and the new policy have uses the same word
/// in both, so that no packet is left uncounted while workers change policies.
struct flow_word {
    union {
        int64_t empty_ns; // for a limit: time since which its bucket has been filling; atomic
        uint64_t used;    // for a quota: number of bytes used; atomic
    };
    // Number of policies that share the word; only the main thread uses this number, without a
    // lock.
    uint32_t users;
};

/// State of limits and quotas.
struct flow {
    uint32_t limits;
    struct flow_word **limit;
    uint32_t quotas;
    struct flow_word **quota;
};

struct flow_counter {
    uint64_t packets, bytes;
};

/// Counters of one worker. Only its thread writes them; any thread may read them. They are numbered
/// as by compile.
struct flow_counters {
    uint32_t counters;
    struct flow_counter *counter;
    uint32_t logs;
    uint64_t *logged; // number of packets that each log statement has logged
};

/// Creates the state of a policy: full buckets, and quotas with the used bytes from the policy's
/// text.
/// - Returns 0 or -ENOMEM with *flow zeroed.
int flow_make(struct flow *flow, const struct compiled *compiled);
void flow_free(struct flow *flow);

/// Replaces the word of a limit or quota by another flow's word, which becomes shared. Must be
/// called before the first use of the replaced word.
/// - place: in: the replaced word; out: the shared word.
void flow_share(struct flow_word **place, struct flow_word *word);

/// Creates counters with the value 0; flow_sum does not include the initial values in the policy's
/// text.
/// - Returns 0 or -ENOMEM with *counters zeroed.
int flow_counters_make(struct flow_counters *counters, const struct compiled *compiled);
void flow_counters_free(struct flow_counters *counters);

/// Counts a packet in a counter of the calling worker.
void flow_count(struct flow_counters *counters, uint32_t counter, uint32_t bytes);

/// Counts a packet in a log statement's counter.
void flow_log(struct flow_counters *counters, uint32_t log);

/// Adds the value of a worker's counter to sum. Any thread may call this function.
void flow_sum(const struct flow_counters *counters, uint32_t counter, struct flow_counter *sum);

/// Returns the number of packets that a worker has counted for a log statement. Any thread may call
/// this function.
uint64_t flow_logged(const struct flow_counters *counters, uint32_t log);

/// Evaluates a limit: removes a packet's tokens from the limit's bucket, if the bucket has enough.
/// Returns true if the statement holds; `over` reverses the result.
/// - bytes: length of the packet; it counts only for a limit of bytes.
bool flow_limit_holds(struct flow *flow, uint32_t index, const struct flow_limit *limit,
                      uint32_t bytes, uint64_t now_ns);

/// Returns the number of tokens in a limit's bucket: from 0 to its size. A token is a nanosecond.
int64_t flow_limit_tokens(const struct flow_word *word, const struct flow_limit *limit,
                          uint64_t now_ns);

/// Fills the bucket of a limit to the same fraction of its size as another bucket.
/// - tokens: tokens of the other bucket, from 0 to size.
/// - size: size of the other bucket.
void flow_limit_fill(struct flow_word *word, const struct flow_limit *limit, int64_t tokens,
                     int64_t size, uint64_t now_ns);

/// Adds a packet's bytes to the used bytes of a quota, and evaluates the quota. Returns true if the
/// statement holds: with `over`, if the used bytes exceed the quota; without `over`, if they do
/// not.
bool flow_quota_holds(struct flow *flow, uint32_t index, const struct flow_quota *quota,
                      uint32_t bytes);

#endif
