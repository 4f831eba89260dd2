// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/refused.toml: words of nft that are not in the language.
#ifndef SPEC_REFUSED_H
#define SPEC_REFUSED_H

#include <stddef.h>

/// Place in a policy at which a word is read.
enum parse_where {
    PARSE_AT_FILE,
    PARSE_AT_FLUSH,
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
    PARSE_AT_TCP_OPTION,
    PARSE_AT_UDP,
    PARSE_AT_ICMP,
    PARSE_AT_ICMPV6,
    PARSE_AT_EXTHDR,
    PARSE_AT_NAMES,
    PARSE_AT_META,
    PARSE_AT_CT,
    PARSE_AT_MASKED,
    PARSE_AT_TARGET,
    PARSE_AT_NAMED,
    PARSE_AT_LOG,
    PARSE_AT_ASSIGNED,
};

/// Refused words of a place, separated by blanks, and the hint for them.
struct refused {
    enum parse_where at;
    const char *words, *hint;
};

enum { REFUSED_COUNT = 49 };

extern const struct refused refused_words[REFUSED_COUNT];

#endif
