// SPDX-License-Identifier: GPL-2.0-or-later
// Finds what a value may concern: rules of a chain that test one field, or elements of a set of
// several fields. The values are divided into intervals; all values of an interval concern the
// same.
#ifndef ENGINE_CANDIDATES_H
#define ENGINE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lookup.h"

enum {
    CANDIDATES_INTERVALS_MAX = 32, // that one item may concern; an item that concerns more is
                                   // left out, so that the lists stay in proportion
};

struct candidates {
    struct lookup lookup; // gives a list
    uint32_t list_count;
    uint32_t *starts; // list n is ids[starts[n]] to ids[starts[n + 1]]
    uint32_t *ids;    // ascending within a list
};

/// Makes the lists.
/// - ranges: the value of each is an id below id_count; ids must not descend, and the ranges of one
///   id must not overlap.
/// - left_out: of id_count; set for ids that are in no list since their ranges span too many
///   intervals. Entries of ids without ranges are not touched.
/// - Returns 0, or -ENOMEM with *candidates zeroed.
int candidates_make(struct candidates *candidates, uint32_t bits, const struct lookup_range *ranges,
                    uint32_t count, uint32_t id_count, bool *left_out);
void candidates_free(struct candidates *candidates);

/// How many ids a lookup is expected to give for a value that has a list: the mean of the lists'
/// lengths, weighted with their lengths, rounded up.
uint32_t candidates_cost(const struct candidates *candidates);

#endif
