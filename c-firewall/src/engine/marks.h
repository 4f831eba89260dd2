// SPDX-License-Identifier: GPL-2.0-or-later
// Possible marks of a packet of which a rule reads unknown values.
//
// Theory of operation: a rule that may hold and sets the mark gives the packet one mark if it
// holds, and leaves another one if not. Each value that the mark may have is a bit, so that the
// possible marks at a place are a word, and those of ways that meet are the union of two words.
#ifndef ENGINE_MARKS_H
#define ENGINE_MARKS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    // Maximum number of mark values in struct mark_values. Further values are MARKS_ANY.
    MARKS_VALUES_MAX = 63,
};

/// Set of marks: bit n stands for the mark values[n] in struct mark_values, and MARKS_ANY for a
/// mark that is not known.
typedef uint64_t mark_set;

#define MARKS_NONE UINT64_C(0)
#define MARKS_ANY (UINT64_C(1) << MARKS_VALUES_MAX)

/// Marks for which the bits of a mark_set stand.
struct mark_values {
    uint32_t count;
    uint32_t values[MARKS_VALUES_MAX];
};

/// Returns the set that contains only this value. Assigns a bit to a new value; returns MARKS_ANY
/// if all bits are assigned.
mark_set marks_one(struct mark_values *values, uint32_t value);

/// Returns the set of marks that contains several values.
mark_set marks_all(struct mark_values *values, const uint32_t *several, uint32_t count);

/// Returns the set that contains only the first mark of a set; MARKS_NONE for an empty set.
static inline mark_set marks_first(mark_set set) { return set & -set; }

/// Returns true if a set contains a single mark, whose value is known.
/// - value: out: that value.
bool marks_value(const struct mark_values *values, mark_set set, uint32_t *value);

/// Returns the set of the marks after a statement that sets the mark to (mark & keep) ^ toggle.
mark_set marks_changed(struct mark_values *values, mark_set set, uint32_t keep, uint32_t toggle);

#endif
