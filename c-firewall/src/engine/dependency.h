// SPDX-License-Identifier: GPL-2.0-or-later
// What a packet must be before a rule's first statement: one that the rule's reject can answer, or
// IPv6 if the rule looks for extension headers. nft tests that there (stmt_reject_gen_dependency,
// exthdr_gen_dependency), unless the table or a match implies it.
#ifndef ENGINE_DEPENDENCY_H
#define ENGINE_DEPENDENCY_H

#include "policy/policy.h"

enum {
    DEPENDENCY_NEEDS_TCP = 1,
    DEPENDENCY_NEEDS_IPV4 = 2,
    DEPENDENCY_NEEDS_IPV6 = 4,
    DEPENDENCY_READS_NAMES = 8, // beside them: the rule reads names
};

/// Conditions of a table's rule that are checked first, and whether it reads names: the sum of
/// some of the above.
uint32_t dependency_needs(enum policy_family family, const struct policy_rule *rule);

#endif
