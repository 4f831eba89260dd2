// SPDX-License-Identifier: GPL-2.0-or-later
// Finds the rules of a chain that may match a packet by the values of its fields, where that spares
// walking over the others. Verdicts and effects stay the same: a rule is left out only if one of
// its matches, before its first effect, does not hold, whatever else the rule reads. Rules are
// found by fields that are not beyond the captured bytes.
#ifndef ENGINE_INDEX_H
#define ENGINE_INDEX_H

#include "engine/compiled.h"

/// Makes the finders of a chain: indexes, and lists of the rules that are in none.
/// - table, chain: what compiled->chains[number] was compiled from.
/// - Returns 0 or -ENOMEM.
int index_chain(struct compiled *compiled, const struct policy_table *table,
                const struct policy_chain *chain, uint32_t number);

/// Makes finders of no index, which list all rules.
/// - Returns 0 or -ENOMEM.
int index_none(struct compiled *compiled, uint32_t number);

#endif
