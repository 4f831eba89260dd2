// SPDX-License-Identifier: GPL-2.0-or-later
// Results of the parsers of names for some bytes, as a line of JSON. The Rust twin's
// tests/unit/support/names.rs prints the same lines.
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_ASKS = 11 };

/// Values of the line "ask" of a vector: each selects a parser.
static const char *const names_asks[NAMES_ASKS] = {
    "fold", "hello",  "client", "client-whole", "query", "framed",
    "quic", "frames", "answer", "request",      "chunk",
};

/// Returns the parsers' result for some bytes as a text that the caller frees.
/// - what: one of names_asks.
/// - bytes: may be NULL if length is 0.
char *names_ask(const char *what, const uint8_t *bytes, uint32_t length);

/// Parses a stream after each segment, once with the progress of earlier segments, and once from
/// the stream's start. Returns true if both results are the same after each segment.
/// - segment: size of the segments in bytes.
/// - what: client or request.
bool names_is_same_in_segments(const char *what, const uint8_t *bytes, uint32_t length,
                               uint32_t segment);

#endif
