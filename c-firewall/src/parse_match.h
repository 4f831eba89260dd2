// SPDX-License-Identifier: GPL-2.0-or-later
// Fields and keys, and what they are compared with or looked up in.
#ifndef PARSE_MATCH_H
#define PARSE_MATCH_H

#include "parse_elements.h"
#include "parse_state.h"

enum {
    // Of a key, each field filled up to a multiple of 4: what nf_tables has registers for
    // (NFT_REG32_COUNT).
    PARSE_KEY_BYTES_MAX = 64,
};

/// Whether a token can begin a field.
bool parse_match_begins(const struct token *token);

/// Takes a key, and takes note of what it tests.
/// - Returns 0 or -EINVAL, as all that take something here; or -ENOMEM.
int parse_match_key(struct parser *parser, struct policy_key *key);

/// Takes what a key is looked up in, after `map` or `vmap`. match->key is filled in; the rest of
/// match is zeroed.
int parse_match_lookup(struct parser *parser, struct policy_match *match,
                       enum policy_maps_to maps_to);

/// Takes what a key is compared with, and perhaps the comparison. match as above.
int parse_match_compared(struct parser *parser, struct policy_match *match);

#endif
