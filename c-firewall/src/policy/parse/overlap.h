// SPDX-License-Identifier: GPL-2.0-or-later
// Comparison of a set's elements with one another: equal ones are merged, others must not overlap.
//
// Theory of operation: the elements are sorted by their fields, so equal elements are adjacent, and
// elements with overlapping first fields form a run. If all first fields of a run are equal, the
// run is sorted and examined by the next field. If first fields differ and overlap (10.0.0.0/8 and
// 10.1.0.0/16), each element is compared with the earlier ones that reach into it; the number of
// these comparisons is bounded by OVERLAP_COMPARISONS_MAX.
#ifndef POLICY_PARSE_OVERLAP_H
#define POLICY_PARSE_OVERLAP_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

enum {
    // Maximum number of comparisons of elements with several fields whose first fields overlap.
    OVERLAP_COMPARISONS_MAX = 1 << 27,
};

/// Merges equal elements. Fails if two others overlap, unless the set allows merging, or if equal
/// ones map to different values.
/// - Returns 0, -EINVAL or -ENOMEM.
int overlap_check(struct parser *parser, const struct parse_shape *shape,
                  struct policy_elements *elements, bool merges);

#endif
