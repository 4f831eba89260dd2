// SPDX-License-Identifier: GPL-2.0-or-later
// What the parsers of names read out of bytes, as a line of JSON. The Rust twin's
// tests/unit/support/names.rs prints the same.
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_ASKS = 11 };

/// Queries on bytes.
static const char *const names_asks[NAMES_ASKS] = {
    "fold", "hello",  "client", "client-whole", "query", "framed",
    "quic", "frames", "answer", "request",      "chunk",
};

/// The parsers' results for some bytes: a text that the caller frees.
/// - what: one of names_asks.
/// - bytes: may be NULL if length is 0.
char *names_ask(const char *what, const uint8_t *bytes, uint32_t length);

/// Returns true if a stream that arrives in segments of so many bytes has the same results, by what
/// is known of the segments before, as when it is read from its start with each of them.
/// - what: client or request.
bool names_is_same_in_segments(const char *what, const uint8_t *bytes, uint32_t length,
                               uint32_t segment);

#endif
