// SPDX-License-Identifier: GPL-2.0-or-later
// From a value to what was stored for it: hash tables for exact values, sorted intervals for
// ranges. Made once, then only read.
#ifndef LOOKUP_H
#define LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

#define LOOKUP_NONE UINT32_MAX // nothing is stored for this value; itself never stored

enum {
    LOOKUP_NARROW_BITS = 32,      // values of up to so many bits are narrow, others wide
    LOOKUP_BUCKETS_MAX = 1 << 17, // of intervals
};

/// What is to be found under all values from low to high.
struct lookup_range {
    policy_value low, high; // low <= high
    uint32_t value;
};

/// A row of a table of narrow values.
struct lookup_slot {
    uint32_t key;
    uint32_t value; // LOOKUP_NONE = empty
};

/// Intervals do not overlap and ascend.
struct lookup_interval {
    uint32_t low, high;
    uint32_t value;
};

struct lookup_wide_interval {
    policy_value low, high;
    uint32_t value;
};

/// A row of a table of several words: where its key lies.
struct lookup_hash_slot {
    uint32_t tag;   // upper half of the key's hash
    uint32_t entry; // LOOKUP_NONE = empty
};

/// A hash table of keys of so many words each.
struct lookup_hash {
    uint32_t count;
    uint32_t mask; // slots - 1; slots is a power of 2 and at least twice the count
    struct lookup_hash_slot *slots;
    uint64_t *rows; // count of them: the words of the key, then the value
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
    // EXACT: slots are a power of 2 and at least twice as many as values
    uint32_t shift; // 32 - log2(slots)
    struct lookup_slot *slots;
    // WIDE_EXACT
    struct lookup_hash hash;
    // INTERVALS, WIDE_INTERVALS
    uint32_t count;
    struct lookup_interval *intervals;
    struct lookup_wide_interval *wide_intervals;
    // Where to search: of the values with the same (value - base) >> bucket_shift, the intervals
    // that begin there are buckets[n] to buckets[n + 1].
    policy_value base; // the lowest value of all
    uint32_t bucket_shift;
    uint32_t bucket_count;
    uint32_t *buckets; // bucket_count + 1 of them
};

/// Sorts ranges, so that none overlaps: where two do, the one that begins first (of those, the one
/// of the lower value) keeps what they share. Returns how many are left.
uint32_t lookup_part(struct lookup_range *ranges, uint32_t count);

/// Makes a lookup of values of so many bits.
/// - ranges: parted as lookup_part does.
/// - Returns 0, or -ENOMEM with *lookup zeroed.
int lookup_make(struct lookup *lookup, uint32_t bits, struct lookup_range *ranges, uint32_t count);
void lookup_free(struct lookup *lookup);

/// What is stored for a value, or LOOKUP_NONE. The lookup must be of narrow values.
uint32_t lookup_find(const struct lookup *lookup, uint32_t value);

/// What is stored for a value, or LOOKUP_NONE. The lookup must be of wide values.
uint32_t lookup_find_wide(const struct lookup *lookup, policy_value value);

/// Makes a hash table.
/// - rows: count of them, words + 1 each, as in struct lookup_hash; taken over, also on failure. Of
///   equal keys the first counts.
/// - Returns 0, or -ENOMEM with *hash zeroed.
int lookup_hash_make(struct lookup_hash *hash, uint32_t words, uint64_t *rows, uint32_t count);
void lookup_hash_free(struct lookup_hash *hash);

/// What is stored for a key, or LOOKUP_NONE.
/// - words: as many as the hash was made with.
uint32_t lookup_hash_find(const struct lookup_hash *hash, const uint64_t *key, uint32_t words);

#endif
