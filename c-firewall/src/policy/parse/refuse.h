// SPDX-License-Identifier: GPL-2.0-or-later
// Words of nft that the language does not have, with hints. rules/policy/GRAMMAR.md, "What is
// refused, and why".
#ifndef POLICY_PARSE_REFUSE_H
#define POLICY_PARSE_REFUSE_H

#include "policy/parse/lexer.h"
#include "policy/token.h"
#include "spec/refused.h"

/// Fails with a hint if nft accepts a token at this place of the grammar, and the language does
/// not. Returns 0 or -EINVAL.
int parse_refuse_check(struct lexer *lexer, enum parse_where at, const struct token *token);

/// Sets the failure for an unexpected token: with a hint if nft accepts the token at this place of
/// the grammar, otherwise with the expected tokens. Returns -EINVAL.
/// - expected: expected tokens, for the error text.
int parse_refuse_unexpected(struct lexer *lexer, enum parse_where at, const struct token *token,
                            const char *expected);

#endif
