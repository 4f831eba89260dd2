// SPDX-License-Identifier: GPL-2.0-or-later
// What a packet must be for a rule to reject it with an answer. nft asks for that before the first
// statement (stmt_reject_gen_dependency), unless the table or a match of the rule says it anyway.
#ifndef ANSWER_H
#define ANSWER_H

#include "policy.h"

enum answer_needs { ANSWER_NEEDS_NOTHING, ANSWER_NEEDS_TCP, ANSWER_NEEDS_IPV4, ANSWER_NEEDS_IPV6 };

/// What a rule of a table asks of a packet before all else.
enum answer_needs answer_needs(enum policy_family family, const struct policy_rule *rule);

#endif
