// SPDX-License-Identifier: GPL-2.0-or-later
// Checks that need the complete text: names of sets and chains, elements of named sets, paths
// through chains.
#ifndef POLICY_PARSE_RESOLVE_H
#define POLICY_PARSE_RESOLVE_H

#include "policy/parse/state.h"

/// Resolves the names of a parsed policy, and makes the checks that need the complete text.
/// - Returns 0, -EINVAL or -ENOMEM.
int resolve_policy(struct parser *parser);

#endif
