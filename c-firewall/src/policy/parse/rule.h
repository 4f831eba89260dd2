// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of rules and their statements.
#ifndef POLICY_PARSE_RULE_H
#define POLICY_PARSE_RULE_H

#include "policy/parse/state.h"

/// Parses a rule with its end, and adds it to a chain.
/// - expected: error text if no rule begins here.
/// - Returns 0, -EINVAL or -ENOMEM.
int parse_rule_read(struct parser *parser, enum policy_family family, struct policy_chain *chain,
                    const char *expected);

#endif
