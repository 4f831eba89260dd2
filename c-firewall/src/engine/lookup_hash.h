// SPDX-License-Identifier: GPL-2.0-or-later
// Hash tables of exact values. Made once, then only read.
//
// Theory of operation: who chooses the elements of a set (a blocklist from elsewhere) or the
// packets must not choose how long a search takes. A slot is found by SipHash with a key that each
// table draws for itself, so values meet in one table as rarely as random ones, whoever chose them.
// It does not rest on luck alone, either: a table in which a search could look at more than
// LOOKUP_PROBES_MAX slots is thrown away and made with another key and twice the slots.
#ifndef ENGINE_LOOKUP_HASH_H
#define ENGINE_LOOKUP_HASH_H

#include <stdint.h>

#include "base/siphash.h"

#define LOOKUP_NONE UINT32_MAX // nothing is stored for this value; itself never stored

enum {
    // Slots that are used side by side at most, so that a search looks at one more at most. At half
    // of the slots used, random values reach it in one of 10^9 tables of 10,000 and one of 10^6 of
    // ten million (a run of n is as likely as (e^-0.193)^n, Knuth's 6.4 with load 1/2).
    LOOKUP_PROBES_MAX = 128,
};

struct lookup_slot {
    uint32_t tag;   // the value itself, or the upper half of a key's hash
    uint32_t value; // what is stored, or where the key's row is; LOOKUP_NONE = empty
};

/// Slots. A search goes from the one that the hash says to the first empty one.
struct lookup_table {
    struct siphash_key key;
    uint32_t mask; // slots - 1; they are a power of 2 and at least twice as many as are used
    struct lookup_slot *slots;
};

/// A hash table of keys of so many words each.
struct lookup_hash {
    uint32_t count;
    struct lookup_table table;
    uint64_t *rows; // count of them: the words of the key, then the value
};

/// Makes a table of narrow values.
/// - entries: no tag twice.
/// - Returns 0, or -ENOMEM with *table zeroed.
int lookup_table_make(struct lookup_table *table, const struct lookup_slot *entries,
                      uint32_t count);
void lookup_table_free(struct lookup_table *table);

/// Content stored for a value, or LOOKUP_NONE.
uint32_t lookup_table_find(const struct lookup_table *table, uint32_t value);

/// Makes a hash table.
/// - rows: count of them, words + 1 each, as in struct lookup_hash; taken over, also on failure. Of
///   equal keys the first counts.
/// - Returns 0, or -ENOMEM with *hash zeroed.
int lookup_hash_make(struct lookup_hash *hash, uint32_t words, uint64_t *rows, uint32_t count);
void lookup_hash_free(struct lookup_hash *hash);

/// Content stored for a key, or LOOKUP_NONE.
/// - words: as many as the hash was made with.
uint32_t lookup_hash_find(const struct lookup_hash *hash, const uint64_t *key, uint32_t words);

#endif
