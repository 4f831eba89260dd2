// SPDX-License-Identifier: GPL-2.0-or-later
// Chains: what they are, and their rules.
#ifndef POLICY_PARSE_CHAIN_H
#define POLICY_PARSE_CHAIN_H

#include "policy/parse/state.h"

/// The chain that a block is about, and what the block has said so far.
struct parse_chain {
    struct policy_chain *chain;
    enum policy_family family;
    bool before; // an earlier block declared it
    bool head, policy, comment;
};

/// Parses the name of a chain, and declares it if it is new.
/// - Returns 0, -EINVAL or -ENOMEM, as the next.
int parse_chain_declare(struct parser *parser, uint32_t table, struct parse_chain *block);

/// Parses the items of a chain and the `}`, after the `{`.
/// - with_rules: whether rules may stand there, too.
int parse_chain_block(struct parser *parser, struct parse_chain *block, bool with_rules);

#endif
