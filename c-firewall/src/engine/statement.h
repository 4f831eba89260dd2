// SPDX-License-Identifier: GPL-2.0-or-later
// The statements of a rule: whether they hold for a packet, and what they do.
#ifndef ENGINE_STATEMENT_H
#define ENGINE_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/set.h"
#include "engine/types.h"

/// Whether the packet is what a rule asks for before its first statement: DECIDE_HELD,
/// DECIDE_NO_ANSWER, or DECIDE_BEYOND if that is not known.
enum decide_why statement_meets(const struct walk *walk, uint32_t needs);

/// Does what a statement says.
/// - target: where it leads, if it is a verdict; else untouched.
/// - Returns DECIDE_HELD if the rule goes on after it.
enum decide_why statement_walk(struct walk *walk, const struct compile_op *op,
                               struct set_target *target);

/// The statements of a rule.
static inline const struct compile_op *statement_ops(const struct walk *walk,
                                                     const struct compile_rule *rule) {
    return &walk->compiled->ops[rule->first];
}

/// Reports a rule that was walked as far as statement.
/// - may: it holds, or is reached, on some ways only.
void statement_record(const struct walk *walk, uint32_t rule, uint32_t statement,
                      enum decide_why why, const struct set_target *target, bool may);

#endif
