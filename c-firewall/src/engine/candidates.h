// SPDX-License-Identifier: GPL-2.0-or-later
// Search for candidates by a value. Candidates are the rules of a chain that test one field, or the
// elements of a set whose keys have several fields. The values are divided into intervals; all
// values of an interval have the same candidates.
#ifndef ENGINE_CANDIDATES_H
#define ENGINE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lookup.h"

enum {
    // Maximum number of intervals of one item (rule or element). An item with more intervals is
    // left out of the lists, so that the lists' total length stays proportional to the number of
    // items.
    CANDIDATES_INTERVALS_MAX = 32,
};

struct candidates {
    struct lookup lookup; // lookup from a value to the number of the list with its candidates
    uint32_t list_count;
    uint32_t *starts; // start of each list: list n is ids[starts[n]] to ids[starts[n + 1] - 1]
    uint32_t *ids;    // IDs of the items in all lists, ascending within a list
};

/// Creates the lists of candidates.
/// - bits: number of bits of a value, as for lookup_make.
/// - ranges: the value of each range is the ID of its item, less than id_count. The IDs must not
///   descend. The ranges of one ID must not overlap.
/// - left_out: out: a flag for each ID; true for IDs that are in no list because their ranges have
///   too many intervals. Unchanged for IDs without ranges.
/// - Returns 0, or -ENOMEM with *candidates zeroed.
int candidates_make(struct candidates *candidates, uint32_t bits, const struct lookup_range *ranges,
                    uint32_t count, uint32_t id_count, bool *left_out);
void candidates_free(struct candidates *candidates);

/// Returns the expected number of candidates of a search that finds a list, rounded up. The
/// probability of a list is assumed to be proportional to its length.
uint32_t candidates_cost(const struct candidates *candidates);

#endif
