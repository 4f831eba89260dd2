// SPDX-License-Identifier: GPL-2.0-or-later
// Compares the elements of a set with one another: equal ones are taken once, others must not
// overlap.
//
// Theory of operation: the elements are sorted by their fields, so equal ones stand beside each
// other, and those whose first fields overlap stand in one run. A run of one and the same first
// field is looked at by its next field, which is sorted there. Where a run's first fields differ
// and overlap (10.0.0.0/8 and 10.1.0.0/16), each element is compared with those before it that
// reach into it; this is bounded by OVERLAP_COMPARISONS_MAX.
#ifndef POLICY_PARSE_OVERLAP_H
#define POLICY_PARSE_OVERLAP_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

enum {
    OVERLAP_COMPARISONS_MAX = 1 << 27, // of elements of several fields whose first fields overlap
};

/// Merges equal elements. Fails if two others overlap, unless the set may merge them, or if
/// equal ones map to different values.
/// - Returns 0, -EINVAL or -ENOMEM.
int overlap_check(struct parser *parser, const struct parse_shape *shape,
                  struct policy_elements *elements, bool merges);

#endif
