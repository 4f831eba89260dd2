// SPDX-License-Identifier: GPL-2.0-or-later
// Lookup of a value: hash tables for exact values, sorted intervals for ranges. Created once, then
// only read.
#ifndef ENGINE_LOOKUP_H
#define ENGINE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lookup_hash.h"
#include "policy/policy.h"

enum {
    LOOKUP_NARROW_BITS = 32,      // maximum number of bits of a narrow value; others are wide
    LOOKUP_BUCKETS_MAX = 1 << 17, // maximum number of buckets (groups of intervals) of a lookup
};

/// Range of values (from low to high, both included) with the same result, `value`.
struct lookup_range {
    policy_value low, high; // lowest and highest value of the range; low <= high
    uint32_t value;
};

/// Range of values with at most 32 bits and the same result. The intervals of a lookup ascend and
/// do not overlap.
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
    LOOKUP_EXACT,          // values with at most 32 bits; every range is one value
    LOOKUP_INTERVALS,      // values with at most 32 bits; at least one range has several values
    LOOKUP_WIDE_EXACT,     // values with more than 32 bits; every range is one value
    LOOKUP_WIDE_INTERVALS, // values with more than 32 bits; at least one range has several values
};

struct lookup {
    enum lookup_kind kind;
    struct lookup_table table; // hash table of the values, for the kind LOOKUP_EXACT
    struct lookup_hash hash;   // hash table of the values, for the kind LOOKUP_WIDE_EXACT
    // Number of intervals, for the kinds LOOKUP_INTERVALS and LOOKUP_WIDE_INTERVALS.
    uint32_t count;
    struct lookup_interval *intervals;
    struct lookup_wide_interval *wide_intervals;
    // Index of a lookup's intervals by their first value. Bucket n has the first values with (value
    // - base) >> bucket_shift = n; its intervals are buckets[n] to buckets[n + 1] - 1.
    policy_value base; // lowest value of all intervals
    uint32_t bucket_shift;
    uint32_t bucket_count;
    uint32_t *buckets; // index of each bucket's first interval; bucket_count + 1 entries
};

/// Sorts ranges and removes overlaps: a value in two ranges belongs to the range that begins first;
/// if both begin at the same value, to the range with the lower result. Removes ranges that become
/// empty. Returns the number of remaining ranges.
uint32_t lookup_part(struct lookup_range *ranges, uint32_t count);

/// Creates a lookup of values with this many bits.
/// - ranges: changed as by lookup_part.
/// - Returns 0, or -ENOMEM with *lookup zeroed.
int lookup_make(struct lookup *lookup, uint32_t bits, struct lookup_range *ranges, uint32_t count);
void lookup_free(struct lookup *lookup);

/// Returns the result for a value; LOOKUP_NONE if no range contains the value. The lookup must be
/// of values with at most 32 bits.
uint32_t lookup_find(const struct lookup *lookup, uint32_t value);

/// Returns the result for a value; LOOKUP_NONE if no range contains the value. The lookup must be
/// of values with more than 32 bits.
uint32_t lookup_find_wide(const struct lookup *lookup, policy_value value);

#endif
