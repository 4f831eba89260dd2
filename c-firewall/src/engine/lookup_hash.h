// SPDX-License-Identifier: GPL-2.0-or-later
// Hash tables of exact values. Created once, then only read.
//
// Theory of operation: neither the author of a set's elements (a blocklist from elsewhere) nor the
// sender of packets must be able to slow down searches. A slot is found by SipHash with a key that
// each table draws for itself, so chosen values collide as rarely as random ones. In addition, a
// table with more than LOOKUP_PROBES_MAX adjacent used slots is discarded, and created again with
// another key and twice the slots.
#ifndef ENGINE_LOOKUP_HASH_H
#define ENGINE_LOOKUP_HASH_H

#include <stdint.h>

#include "base/siphash.h"

/// Value of an empty slot: the result for values that are not stored; never stored as a result.
#define LOOKUP_NONE UINT32_MAX

enum {
    // Maximum number of adjacent used slots; a search examines at most one slot more. If half of
    // the slots are used, random values need a longer run in one of 10^9 tables with 10,000 values,
    // and in one of 10^6 tables with ten million values (the probability of a run of n slots falls
    // like n^-1.5 (e^-0.193)^n, Knuth's 6.4 with load 1/2).
    LOOKUP_PROBES_MAX = 128,
};

struct lookup_slot {
    uint32_t tag;   // the value itself (at most 32 bits), or the upper half of the hash of a key
    uint32_t value; // result, or index of the key's row; LOOKUP_NONE = empty slot
};

/// Table of slots. A search starts at the slot given by the hash, and ends at the value or at the
/// first empty slot.
struct lookup_table {
    struct siphash_key key;
    // Number of slots - 1. The number is a power of 2, and at least twice the number of used slots.
    uint32_t mask;
    struct lookup_slot *slots;
};

/// Hash table whose keys have a fixed number of words.
struct lookup_hash {
    uint32_t count;
    struct lookup_table table;
    uint64_t *rows; // rows (their number is count): each has the words of its key, then the result
};

/// Creates a hash table of values with at most 32 bits.
/// - entries: each value, as `tag`, with its result; all values differ.
/// - Returns 0, or -ENOMEM with *table zeroed.
int lookup_table_make(struct lookup_table *table, const struct lookup_slot *entries,
                      uint32_t count);
void lookup_table_free(struct lookup_table *table);

/// Returns the result for a value; LOOKUP_NONE if the value is not in the table.
uint32_t lookup_table_find(const struct lookup_table *table, uint32_t value);

/// Creates a hash table.
/// - rows: in: count rows of words + 1 numbers each, as in struct lookup_hash; *hash owns them from
///   now on; they are freed on failure. Of rows with equal keys, the first row applies.
/// - Returns 0, or -ENOMEM with *hash zeroed.
int lookup_hash_make(struct lookup_hash *hash, uint32_t words, uint64_t *rows, uint32_t count);
void lookup_hash_free(struct lookup_hash *hash);

/// Returns the result for a key; LOOKUP_NONE if the key is not in the table.
/// - words: as many as the table's keys have.
uint32_t lookup_hash_find(const struct lookup_hash *hash, const uint64_t *key, uint32_t words);

#endif
