// SPDX-License-Identifier: GPL-2.0-or-later
// The sets of a policy that learn, as they are compiled.
#ifndef ENGINE_LEARNING_H
#define ENGINE_LEARNING_H

#include "engine/compiled.h"
#include "policy/policy.h"

/// Notes that the set that was added last learns, if it does.
/// - table: its own.
/// - Returns 0 or -ENOMEM.
int learning_add(struct compiled *out, const struct policy *policy,
                 const struct policy_table *table, const struct policy_set *set);

/// Has a match in a set that learns look at what is learnt. Others are left as they are.
void learning_find(const struct compiled *out, struct compile_op *op);

/// Frees the sets that learn, and what they have learnt unless others have it, too.
void learning_free(struct compiled *compiled);

#endif
