// SPDX-License-Identifier: GPL-2.0-or-later
// Sets and maps, named or not, in the form for lookups.
#ifndef ENGINE_SET_H
#define ENGINE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/candidates.h"
#include "engine/fields.h"
#include "engine/lookup.h"
#include "policy/policy.h"

/// Target of a rule or of a verdict map's element.
struct set_target {
    enum policy_verdict verdict;
    uint32_t chain; // target chain of jump and goto, numbered as by compile
};

/// A set or map. Elements are numbered in the order of the text; values of a map are indexed by
/// that number.
struct set {
    uint32_t fields;      // number of fields of a key
    struct lookup single; // lookup of a key with one field
    // Lookup of exact elements, for keys with several fields. Elements without ranges are found
    // here by the hash of their values. Elements with ranges are found by the candidates of one
    // field, and then compared.
    struct lookup_hash exact;
    uint32_t ranged_count;
    uint32_t *ranged;            // numbers of the elements with ranges
    struct policy_range *ranges; // ranges of the elements in ranged, `fields` per element
    // Index of a field in the key. The search in `candidates` uses the value of this field.
    uint32_t by;
    struct candidates candidates;
    uint32_t always_count;
    uint32_t *always; // indexes into ranged of the elements that no list of candidates has
    // True if elements can be nested: then the element that comes first in ranged is found.
    bool nested;
    // Marks of a map to marks or targets of a verdict map, one per element; otherwise NULL.
    uint32_t *marks;
    struct set_target *targets;
    uint32_t possible_count;
    // Different marks of a map to marks, at most MARKS_VALUES_MAX + 1 of them.
    uint32_t *possible;
    uint32_t lead_count;
    struct set_target *leads; // all different targets of a verdict map
};

/// Creates a set.
/// - types: types of the key's fields.
/// - ranges: ranges of count elements, elements->fields each. They replace elements->ranges,
///   because names of interfaces have become indexes, and host names numbers. An element whose
///   first range is empty (low > high) is left out. Host names may be nested: the innermost is
///   found.
/// - first_chain: number of the table's first chain.
/// - Returns 0, or -ENOMEM with *set zeroed.
int set_make(struct set *set, const enum policy_type *types, const struct policy_elements *elements,
             const struct policy_range *ranges, uint32_t count, uint32_t first_chain);
void set_free(struct set *set);

/// Returns the number of the element that contains the values of a key with several fields, or
/// LOOKUP_NONE.
/// - words: count words of the key, from fields_words.
uint32_t set_find(const struct set *set, const struct fields *fields, const struct policy_key *key,
                  const uint64_t *words, uint32_t count);

#endif
