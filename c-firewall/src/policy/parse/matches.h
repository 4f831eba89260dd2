// SPDX-License-Identifier: GPL-2.0-or-later
// Fields and keys, and what they are compared with or looked up in.
#ifndef POLICY_PARSE_MATCHES_H
#define POLICY_PARSE_MATCHES_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

/// Error text for another use of tls alpn, of which a client offers several.
#define PARSE_ALPN_ALONE "tls alpn takes ==, != and values in place"

enum {
    // The most bytes of a key, each field filled up to a multiple of 4: what nf_tables has
    // registers for (NFT_REG32_COUNT).
    PARSE_KEY_BYTES_MAX = 64,
};

/// Whether a token can begin a field.
bool parse_matches_begins(const struct token *token);

/// Parses a key and records its fields.
/// - Returns 0, -EINVAL or -ENOMEM, as does each function below that takes something.
int parse_matches_key(struct parser *parser, struct policy_key *key);

/// Parses the set of a lookup, after `map` or `vmap`. match->key is filled in; the rest of
/// match is zeroed.
int parse_matches_lookup(struct parser *parser, struct policy_match *match,
                         enum policy_maps_to maps_to);

/// Parses an optional comparison and its operand. match as above.
int parse_matches_compared(struct parser *parser, struct policy_match *match);

#endif
