// SPDX-License-Identifier: GPL-2.0-or-later
// Sets and maps, named or not, in the form that is looked up.
#ifndef ENGINE_SET_H
#define ENGINE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/candidates.h"
#include "engine/fields.h"
#include "engine/lookup.h"
#include "policy/policy.h"

/// Target chain of a verdict.
struct set_target {
    enum policy_verdict verdict;
    uint32_t chain; // of jump and goto: as compile numbers chains
};

/// A set or map. Elements are numbered in the order written; what a map gives is found by that
/// number.
struct set {
    uint32_t fields;      // of a key
    struct lookup single; // if fields is 1
    // Otherwise: elements of exact values by their hash; the others by candidates of one field and
    // then one by one.
    struct lookup_hash exact;
    uint32_t ranged_count;
    uint32_t *ranged;            // numbers of the elements with ranges
    struct policy_range *ranges; // of those, fields each
    uint32_t by;                 // place in the key of the field that candidates goes by
    struct candidates candidates;
    uint32_t always_count;
    uint32_t *always; // those that candidates left out, into ranged
    bool nested;      // elements lie in one another: the one that stands first in ranged is found
    // Values of a map; else NULL.
    uint32_t *marks;
    struct set_target *targets;
    uint32_t lead_count;
    struct set_target *leads; // the targets, each once
};

/// Makes a set.
/// - types: of the fields of the key.
/// - ranges: of count elements,  elements->fields each; instead of elements->ranges, since
///   names of interfaces have become indices, and those of hosts numbers. An element whose first
///   range is empty (low > high) is left out. Names of hosts may lie in one another: the innermost
///   is found.
/// - first_chain: the number of the table's first chain.
/// - Returns 0, or -ENOMEM with *set zeroed.
int set_make(struct set *set, const enum policy_type *types, const struct policy_elements *elements,
             const struct policy_range *ranges, uint32_t count, uint32_t first_chain);
void set_free(struct set *set);

/// The number of the element that holds the values of a key of several fields, or LOOKUP_NONE.
/// - words: count of them, of the key, as fields_words put them together.
uint32_t set_find(const struct set *set, const struct fields *fields, const struct policy_key *key,
                  const uint64_t *words, uint32_t count);

#endif
