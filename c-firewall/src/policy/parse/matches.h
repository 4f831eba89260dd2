// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of fields and keys, and of the values or sets that they are compared with.
#ifndef POLICY_PARSE_MATCHES_H
#define POLICY_PARSE_MATCHES_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

/// Error text for unsupported uses of tls alpn, of which a client offers several values.
#define PARSE_ALPN_ALONE "tls alpn takes ==, != and values in place"

enum {
    // Maximum size of a key in bytes, with each field padded to a multiple of 4 bytes: the size of
    // nf_tables' registers (NFT_REG32_COUNT).
    PARSE_KEY_BYTES_MAX = 64,
};

/// Returns true if a token can begin a field.
bool parse_matches_begins(const struct token *token);

/// Parses a key: fields joined by `.`. Counts the fields for the rule, and checks that the rule's
/// table and earlier matches allow them.
/// - Returns 0, -EINVAL or -ENOMEM, like each parsing function below.
int parse_matches_key(struct parser *parser, struct policy_key *key);

/// Parses the map of a lookup (`@NAME` or `{ … }`), after `map` or `vmap`.
/// - match: in/out: before the call, its key is filled in, and its other fields are zeroed.
/// - maps_to: required values of the map: marks for `map`, verdicts for `vmap`.
int parse_matches_lookup(struct parser *parser, struct policy_match *match,
                         enum policy_maps_to maps_to);

/// Parses the rest of a match after its key: an optional mask, an optional comparison, and the
/// operand.
/// - match: in/out: before the call, its key is filled in, and its other fields are zeroed.
int parse_matches_compared(struct parser *parser, struct policy_match *match);

#endif
