// SPDX-License-Identifier: GPL-2.0-or-later
// What needs the whole text: names of sets and chains, elements of named sets, ways through chains.
#ifndef POLICY_PARSE_RESOLVE_H
#define POLICY_PARSE_RESOLVE_H

#include "policy/parse/state.h"

/// Resolves the names of a policy whose text was read, and checks what could not be before.
/// - Returns 0, -EINVAL or -ENOMEM.
int resolve_policy(struct parser *parser);

#endif
