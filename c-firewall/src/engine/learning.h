// SPDX-License-Identifier: GPL-2.0-or-later
// Compilation of a policy's sets that learn.
#ifndef ENGINE_LEARNING_H
#define ENGINE_LEARNING_H

#include "engine/compiled.h"
#include "policy/policy.h"

/// Adds the last added set to the sets that learn, if it learns.
/// - table: table of the set.
/// - Returns 0 or -ENOMEM.
int learning_add(struct compiled *out, const struct policy *policy,
                 const struct policy_table *table, const struct policy_set *set);

/// Changes a match in a set that learns into one with learned addresses. Other matches stay
/// unchanged.
void learning_find(const struct compiled *out, struct compile_op *op);

/// Frees the sets that learn, and their addresses unless another policy shares them.
void learning_free(struct compiled *compiled);

#endif
