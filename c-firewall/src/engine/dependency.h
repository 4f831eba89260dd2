// SPDX-License-Identifier: GPL-2.0-or-later
// Conditions on a packet that are checked before a rule's first statement: the rule's reject can
// answer the packet, and the packet is IPv6 if the rule reads extension headers. nft checks these
// conditions at the same point (stmt_reject_gen_dependency, exthdr_gen_dependency), unless the
// table or a match implies them.
#ifndef ENGINE_DEPENDENCY_H
#define ENGINE_DEPENDENCY_H

#include "policy/policy.h"

enum {
    DEPENDENCY_NEEDS_TCP = 1,
    DEPENDENCY_NEEDS_IPV4 = 2,
    DEPENDENCY_NEEDS_IPV6 = 4,
    DEPENDENCY_READS_NAMES = 8, // flag that is stored with the conditions: the rule reads names
};

/// Returned by dependency_names_at for a rule that reads no name.
#define DEPENDENCY_NO_NAMES UINT32_MAX

/// Returns the index of a rule's first statement that reads a name; DEPENDENCY_NO_NAMES if none
/// does.
uint32_t dependency_names_at(const struct policy_rule *rule);

/// Returns a rule's conditions on a packet, and the flag that the rule reads names, as a bitwise OR
/// of DEPENDENCY_NEEDS_* and DEPENDENCY_READS_NAMES.
uint32_t dependency_needs(enum policy_family family, const struct policy_rule *rule);

#endif
