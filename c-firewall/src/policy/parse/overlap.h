// SPDX-License-Identifier: GPL-2.0-or-later
// Comparison of a set's elements with one another: equal elements are merged, other elements must
// not overlap, except in a set with auto-merge or a set in braces.
//
// Theory of operation: the elements are sorted by their fields, so equal elements are adjacent, and
// elements with overlapping first fields form a run. If all first fields of a run are equal, the
// run is sorted by the next field, and is examined by it. If first fields differ and overlap
// (10.0.0.0/8 and 10.1.0.0/16), each element is compared with the earlier elements whose first
// field overlaps its own; the number of these comparisons is bounded by OVERLAP_COMPARISONS_MAX.
#ifndef POLICY_PARSE_OVERLAP_H
#define POLICY_PARSE_OVERLAP_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

enum {
    // Maximum number of comparisons in the search for overlapping elements of one set or map with
    // several fields. A set that needs more is refused.
    OVERLAP_COMPARISONS_MAX = 1 << 27,
};

/// Merges equal elements. Fails if equal elements map to different values, if two other elements
/// overlap, or if the search for overlaps needs too many comparisons.
/// - merges: true if the elements of a set, but not of a map, may overlap.
/// - Returns 0, -EINVAL or -ENOMEM.
int overlap_check(struct parser *parser, const struct parse_shape *shape,
                  struct policy_elements *elements, bool merges);

#endif
