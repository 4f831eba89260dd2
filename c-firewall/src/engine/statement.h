// SPDX-License-Identifier: GPL-2.0-or-later
// Statements of a rule: whether they hold for a packet, and their effects.
#ifndef ENGINE_STATEMENT_H
#define ENGINE_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/set.h"
#include "engine/types.h"

/// Checks a rule's conditions on a packet (engine/dependency.h). Returns DECIDE_HELD if the packet
/// meets them, DECIDE_NO_ANSWER if it does not, and DECIDE_BEYOND if this is unknown.
enum decide_why statement_meets(const struct walk *walk, uint32_t needs);

/// Executes a statement.
/// - target: out: target of a verdict, reject or verdict map; unchanged by other statements.
/// - Returns DECIDE_HELD if the statement holds, otherwise the reason.
enum decide_why statement_walk(struct walk *walk, const struct compile_op *op,
                               struct set_target *target);

/// Searches a map statement's map for the packet's key, if the key contains a name. Does not
/// execute the statement. Returns DECIDE_HELD if the map has the key, otherwise the reason for the
/// missing key or the unknown result. Returns DECIDE_HELD for any other statement, without a
/// search.
enum decide_why statement_look_up(const struct walk *walk, const struct compile_op *op);

/// Returns the first of a rule's statements; their number is rule->count. Matches are statements,
/// too.
static inline const struct compile_op *statement_ops(const struct walk *walk,
                                                     const struct compile_rule *rule) {
    return &walk->compiled->ops[rule->first];
}

/// Reports to the recorder a rule that was evaluated up to a statement.
/// - may: true if an unknown value decides whether the rule holds or is reached.
void statement_record(const struct walk *walk, uint32_t rule, uint32_t statement,
                      enum decide_why why, const struct set_target *target, bool may);

#endif
