// SPDX-License-Identifier: GPL-2.0-or-later
// A rule that may read unknown values: whether it holds on a way, and its effects.
#ifndef ENGINE_RULE_H
#define ENGINE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/marks.h"
#include "engine/types.h"

/// Result of a rule for a packet with unknown values.
enum rule_holds {
    RULE_HOLDS_NO,
    RULE_HOLDS_MAY,
    RULE_HOLDS_YES,
    RULE_HOLDS_CLOSED, // the rule may hold, but a packet with these unknown values must not pass
};

/// Flags for the kinds of unknown values: true if the result of a rule depends on a value of this
/// kind.
struct rule_read {
    bool beyond; // true for fields beyond the captured bytes
    bool names;
};

/// State of a walk along several ways.
struct ways {
    struct walk *walk;
    // True if a packet may pass although a rule reads a field beyond the captured bytes
    // (truncated_open), or an unknown name (unknown_open).
    bool truncated_open;
    bool unknown_open;
    bool waits;    // true if the names may still arrive
    uint32_t base; // current base chain
    bool accepts;  // true if a way through the base chain accepts the packet
    bool returns;  // true if a way reaches the end of the base chain
    bool aside; // true until the current chain ends, if the packet may be accepted on another way
    struct mark_values *values; // values of the bits of all sets of marks
    mark_set marks;             // values that the packet's mark may have on the current ways
    // accepted: values that the mark may have on the ways on which the base chain accepts the
    // packet. returned: values that the mark may have on the ways that reach the end of the base
    // chain before the last way.
    mark_set accepted, returned;
    // past: values that the mark may have on the ways on which it is unknown whether the current
    // rule holds. fails: values that the mark may have on the ways on which the current rule
    // certainly does not hold.
    mark_set past, fails;
    struct rule_read read; // kinds of unknown values on which the rules so far depend
    // Statement that decided the current rule's result: it did not hold, or is the first with an
    // unknown result. Number of statements if all held; 0 if the packet does not meet the rule's
    // conditions. why: reason.
    uint32_t statement;
    enum decide_why why;
};

/// Returns true if the current effects would happen on some ways only.
bool rule_is_aside(const struct ways *ways);

/// Sets the marks on the current ways. The packet's mark in the outcome stays unchanged.
void rule_set_marks(struct ways *ways, mark_set marks);

/// Returns the marks for which a statement is executed at once: all, or the first one if the
/// statement reads the mark.
mark_set rule_together(const struct ways *ways, const struct compile_op *op, mark_set marks);

/// Returns whether a rule holds from a statement on; executes its effects. Afterwards the marks are
/// those of the ways on which it may hold, if there are any.
/// - read: out: unknown values that decide whether the rule holds.
enum rule_holds rule_evaluate(struct ways *ways, const struct compile_rule *rule, uint32_t from,
                              struct rule_read *read);

#endif
