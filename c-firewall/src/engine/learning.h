// SPDX-License-Identifier: GPL-2.0-or-later
// Compilation of a policy's learning sets: sets to which DNS answers add addresses.
#ifndef ENGINE_LEARNING_H
#define ENGINE_LEARNING_H

#include "engine/compiled.h"
#include "policy/policy.h"

/// Adds the set that was compiled last to the learning sets, if it learns.
/// - table: table of the set.
/// - Returns 0 or -ENOMEM.
int learning_add(struct compiled *out, const struct policy *policy,
                 const struct policy_table *table, const struct policy_set *set);

/// Changes a match with a learning set into a match with the set's learned addresses. Other matches
/// stay unchanged.
void learning_find(const struct compiled *out, struct compile_op *op);

/// Frees the learning sets, and their addresses unless another policy shares them.
void learning_free(struct compiled *compiled);

#endif
