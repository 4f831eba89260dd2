// SPDX-License-Identifier: GPL-2.0-or-later
// Finds what was stored for a value: hash tables for exact values, sorted intervals for ranges.
// Made once, then only read.
#ifndef ENGINE_LOOKUP_H
#define ENGINE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lookup_hash.h"
#include "policy/policy.h"

enum {
    LOOKUP_NARROW_BITS = 32,      // values of up to so many bits are narrow, others wide
    LOOKUP_BUCKETS_MAX = 1 << 17, // of intervals
};

/// Interval: the content stored for all values from low to high.
struct lookup_range {
    policy_value low, high; // low <= high
    uint32_t value;
};

/// An interval. They ascend and do not overlap.
struct lookup_interval {
    uint32_t low, high;
    uint32_t value;
};

struct lookup_wide_interval {
    policy_value low, high;
    uint32_t value;
};

enum lookup_kind {
    LOOKUP_EMPTY,
    LOOKUP_EXACT,          // narrow, every range is one value
    LOOKUP_INTERVALS,      // narrow
    LOOKUP_WIDE_EXACT,     // wide, every range is one value
    LOOKUP_WIDE_INTERVALS, // wide
};

struct lookup {
    enum lookup_kind kind;
    struct lookup_table table; // EXACT
    struct lookup_hash hash;   // WIDE_EXACT
    // INTERVALS, WIDE_INTERVALS
    uint32_t count;
    struct lookup_interval *intervals;
    struct lookup_wide_interval *wide_intervals;
    // Search index: for the values with the same (value - base) >> bucket_shift, the intervals
    // that begin there are buckets[n] to buckets[n + 1].
    policy_value base; // the lowest value of all
    uint32_t bucket_shift;
    uint32_t bucket_count;
    uint32_t *buckets; // bucket_count + 1 of them
};

/// Sorts ranges and ends overlaps: the range that begins first keeps what two share; of two that
/// begin at one place, the one with the lower value. Returns how many are left.
uint32_t lookup_part(struct lookup_range *ranges, uint32_t count);

/// Makes a lookup of values of so many bits.
/// - ranges: parted as lookup_part does.
/// - Returns 0, or -ENOMEM with *lookup zeroed.
int lookup_make(struct lookup *lookup, uint32_t bits, struct lookup_range *ranges, uint32_t count);
void lookup_free(struct lookup *lookup);

/// Content stored for a value, or LOOKUP_NONE. The lookup must be of narrow values.
uint32_t lookup_find(const struct lookup *lookup, uint32_t value);

/// Content stored for a value, or LOOKUP_NONE. The lookup must be of wide values.
uint32_t lookup_find_wide(const struct lookup *lookup, policy_value value);

#endif
