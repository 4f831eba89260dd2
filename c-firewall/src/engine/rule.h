// SPDX-License-Identifier: GPL-2.0-or-later
// Evaluation of a rule that may read unknown values: whether it holds on the current ways (paths
// through the rules), and its effects.
#ifndef ENGINE_RULE_H
#define ENGINE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/marks.h"
#include "engine/types.h"

/// Result of a rule for a packet with unknown values: no, may, yes, or closed (may hold, but the
/// packet must not pass).
enum rule_holds {
    RULE_HOLDS_NO,
    RULE_HOLDS_MAY,
    RULE_HOLDS_YES,
    RULE_HOLDS_CLOSED, // the rule may hold, but a packet with these unknown values must not pass
};

/// Flags for the kinds of unknown values: true if the result of a rule depends on a value of this
/// kind.
struct rule_read {
    bool beyond; // true if the result depends on a field beyond the captured bytes
    bool names;
};

/// State of an evaluation that follows several ways through the rules, because it is unknown
/// whether some rules hold.
struct ways {
    struct walk *walk;
    // True if a packet may pass although a rule reads a field beyond the captured bytes
    // (truncated_open), or an unknown name (unknown_open).
    bool truncated_open;
    bool unknown_open;
    bool waits;    // true if the client may still send the names
    uint32_t base; // number of the current base chain
    bool accepts;  // true if a way through the base chain accepts the packet
    bool returns;  // true if a way reaches the end of the base chain
    // True if rules have no effects until the current chain ends, because the packet may be
    // accepted on another way.
    bool aside;
    struct mark_values *values; // values of the mark: bit n of each set of marks means values[n]
    mark_set marks;             // values that the packet's mark may have on the current ways
    // accepted: values that the mark may have on the ways on which the base chain accepts the
    // packet. returned: values that the mark may have on the ways that reach the end of the base
    // chain before the last way.
    mark_set accepted, returned;
    // past: values that the mark may have on the ways on which it is unknown whether the current
    // rule holds. fails: values that the mark may have on the ways on which the current rule
    // certainly does not hold.
    mark_set past, fails;
    struct rule_read read; // kinds of the unknown values that made results of rules RULE_HOLDS_MAY
    // Index of the statement that decided the current rule's result: it did not hold, or is the
    // first with an unknown result. Number of statements if all held; 0 if the rule's conditions
    // decided. why: reason for the result.
    uint32_t statement;
    enum decide_why why;
};

/// Returns true if the current rule must have no effects, because the packet may be accepted on
/// another way.
bool rule_is_aside(const struct ways *ways);

/// Sets the marks on the current ways. The packet's mark in the outcome stays unchanged.
void rule_set_marks(struct ways *ways, mark_set marks);

/// Returns those of the marks for which a statement can be executed in one step: all of them, or
/// only the first one if the statement reads the mark.
mark_set rule_together(const struct ways *ways, const struct compile_op *op, mark_set marks);

/// Evaluates a rule from a statement on, and returns whether it holds. Statements before its
/// verdict have effects only while it is certain that the rule holds and that the packet is not
/// accepted on another way. Afterwards the marks are those of the ways on which the rule may hold,
/// if there are any.
/// - from: index of the statement in the rule.
/// - read: in/out: kinds of unknown values on which the result of the rule depends; at first none.
enum rule_holds rule_evaluate(struct ways *ways, const struct compile_rule *rule, uint32_t from,
                              struct rule_read *read);

#endif
