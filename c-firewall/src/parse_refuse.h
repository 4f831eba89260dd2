// SPDX-License-Identifier: GPL-2.0-or-later
// Words of nft that are not in the language, with what to do instead. rules/policy/GRAMMAR.md,
// "What is refused, and why".
#ifndef PARSE_REFUSE_H
#define PARSE_REFUSE_H

#include "lexer.h"
#include "token.h"

/// Where a word is met.
enum parse_where {
    PARSE_AT_FILE,
    PARSE_AT_ADD,
    PARSE_AT_FAMILY,
    PARSE_AT_TABLE,
    PARSE_AT_STATEMENT,
    PARSE_AT_CHAIN_TYPE,
    PARSE_AT_HOOK,
    PARSE_AT_SET,
    PARSE_AT_SET_FLAG,
    PARSE_AT_SET_TYPE,
    PARSE_AT_ELEMENT,
    PARSE_AT_IP,
    PARSE_AT_IP6,
    PARSE_AT_TCP,
    PARSE_AT_UDP,
    PARSE_AT_ICMP,
    PARSE_AT_ICMPV6,
    PARSE_AT_EXTHDR,
    PARSE_AT_META,
    PARSE_AT_CT,
    PARSE_AT_NAMED,
    PARSE_AT_LOG,
    PARSE_AT_ASSIGNED,
};

/// Fails with the hint for a token, if there is one. Returns 0 or -EINVAL.
int parse_refuse_check(struct lexer *lexer, enum parse_where at, const struct token *token);

/// Fails with the hint for a token, or with what was expected if there is none. Returns -EINVAL.
int parse_refuse_unexpected(struct lexer *lexer, enum parse_where at, const struct token *token,
                            const char *expected);

#endif
