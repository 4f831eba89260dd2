// SPDX-License-Identifier: GPL-2.0-or-later
// Indexes of a chain's rules by the values of fields, where an index saves evaluating many rules.
// The outcome stays the same: a rule is skipped only if one of its matches, before its first
// effect, does not hold, whatever else the rule reads. Of the skipped rules, those are listed that
// may read names, so that the outcome says whether names were read (compile_finder.first_reader).
// Only fields within the captured bytes are used.
#ifndef ENGINE_INDEX_H
#define ENGINE_INDEX_H

#include "engine/compiled.h"

/// Creates the finders of a chain: indexes, and lists of the rules that are in no index.
/// - table, chain: source of compiled->chains[number].
/// - Returns 0 or -ENOMEM.
int index_chain(struct compiled *compiled, const struct policy_table *table,
                const struct policy_chain *chain, uint32_t number);

/// Creates finders without indexes, which list all rules.
/// - Returns 0 or -ENOMEM.
int index_none(struct compiled *compiled, uint32_t number);

#endif
