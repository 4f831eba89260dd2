// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of chains: their declarations and rules.
#ifndef POLICY_PARSE_CHAIN_H
#define POLICY_PARSE_CHAIN_H

#include "policy/parse/state.h"

/// Chain that a block describes, and the parts that the block has had so far.
struct parse_chain {
    struct policy_chain *chain;
    enum policy_family family;
    bool before; // true if the chain was declared before the block
    bool head, policy, comment;
};

/// Parses the name of a chain, and declares the chain if the name is new.
/// - Returns 0, -EINVAL or -ENOMEM.
int parse_chain_declare(struct parser *parser, uint32_t table, struct parse_chain *block);

/// Parses the items of a chain's block and the `}`, after the `{`.
/// - with_rules: true if rules, `define` and `include` are allowed, too; false after `add chain`.
/// - Returns 0, -EINVAL, -ENOMEM, or -errno of reading an included file.
int parse_chain_block(struct parser *parser, struct parse_chain *block, bool with_rules);

#endif
