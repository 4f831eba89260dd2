// SPDX-License-Identifier: GPL-2.0-or-later
// Matches of a rule: whether they hold for a packet's fields, and the reason if they don't.
#ifndef ENGINE_MATCHES_H
#define ENGINE_MATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/fields.h"
#include "engine/types.h"

/// Result of evaluating a match: its field lies beyond the captured bytes (BEYOND), is unknown
/// (UNKNOWN) or is absent from the packet (MISSING); the match does not hold (NOT) or holds
/// (FOUND).
enum match { MATCH_BEYOND, MATCH_UNKNOWN, MATCH_MISSING, MATCH_NOT, MATCH_FOUND };

static inline enum match matches_found_if(bool holds) { return holds ? MATCH_FOUND : MATCH_NOT; }

/// Returns the result for a field that is not present.
static inline enum match matches_not_present(const struct fields *fields, enum policy_field field) {
    if (fields->beyond & FIELDS_BIT(field))
        return MATCH_BEYOND;
    return (fields->unknown & FIELDS_BIT(field)) ? MATCH_UNKNOWN : MATCH_MISSING;
}

/// Evaluates a match of a narrow field. Inline, because a call would cost more than the comparison.
static inline enum match matches_narrow(const struct fields *fields, const struct compile_op *op) {
    if (!fields_is_present(fields, op->field))
        return matches_not_present(fields, op->field);
    return matches_found_if(((fields->narrow[op->field] & op->mask) - op->low <= op->span) !=
                            op->negated);
}

/// Evaluates a match of a wide field. Inline, because a call would cost more than the comparison.
static inline enum match matches_wide(const struct compiled *compiled, const struct fields *fields,
                                      const struct compile_op *op) {
    const struct compile_wide *wide = &compiled->wides[op->index];

    if (!fields_is_present(fields, wide->field))
        return matches_not_present(fields, wide->field);
    return matches_found_if(((fields->wide[wide->slot] & wide->mask) - wide->low <= wide->span) !=
                            op->negated);
}

/// Searches a set for a packet's key.
/// - op: a match in a set, or a map.
/// - element: out: number of the element, if found.
enum match matches_find(const struct compiled *compiled, const struct fields *fields,
                        const struct compile_op *op, uint32_t *element);

/// Evaluates a match with the values of sets[op->index].
enum match matches_set(const struct compiled *compiled, const struct fields *fields,
                       const struct compile_op *op);

/// Evaluates a match with the learned addresses of learning[op->index].
__attribute__((cold)) enum match matches_learned(const struct compiled *compiled,
                                                 const struct fields *fields,
                                                 const struct compile_op *op, uint64_t now_ns);

/// Returns the reason why a match did not hold or its result is unknown; DECIDE_HELD if it held.
static inline enum decide_why matches_why_not(enum match found) {
    switch (found) {
    case MATCH_FOUND:
        return DECIDE_HELD;
    case MATCH_NOT:
        return DECIDE_DIFFERS;
    case MATCH_MISSING:
        return DECIDE_MISSING;
    case MATCH_UNKNOWN:
        return DECIDE_UNKNOWN;
    case MATCH_BEYOND:
        break;
    }
    return DECIDE_BEYOND;
}

/// Returns the bits of the fields that a match or map reads.
uint64_t matches_looks_at(const struct compiled *compiled, const struct compile_op *op);

/// Stores in step the values of the fields that a match or map reads. If a field has no value or
/// several possible values, and step->why is the reason for this or is DECIDE_DIFFERS, stores only
/// the first of these fields, in step->missing. Does nothing for other statements.
void matches_note_values(const struct compiled *compiled, const struct fields *fields,
                         const struct compile_op *op, struct decide_step *step);

#endif
