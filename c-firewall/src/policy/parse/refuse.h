// SPDX-License-Identifier: GPL-2.0-or-later
// Words of nft that the language does not have, with hints. rules/policy/GRAMMAR.md, "What is
// refused, and why".
#ifndef POLICY_PARSE_REFUSE_H
#define POLICY_PARSE_REFUSE_H

#include "policy/parse/lexer.h"
#include "policy/token.h"
#include "spec/refused.h"

/// Fails with the hint for a token, if the token has a hint. Returns 0 or -EINVAL.
int parse_refuse_check(struct lexer *lexer, enum parse_where at, const struct token *token);

/// Sets the failure for an unexpected token: with the hint for the token, or with the expected
/// tokens if there is no hint. Returns -EINVAL.
int parse_refuse_unexpected(struct lexer *lexer, enum parse_where at, const struct token *token,
                            const char *expected);

#endif
