// SPDX-License-Identifier: GPL-2.0-or-later
// What follows the header of a request of HTTP/1: how long its body is, and where the next request
// begins.
// Formats: RFC 9112, sections 6 and 7.1 (body, chunks), RFC 9110, section 7.8 (Upgrade).
//
// Theory of operation: servers differ in what they do with a body that is not as the RFCs ask, and
// some read none where they expect none. A request behind such a body can't be told from the body.
#ifndef NAMES_BODY_H
#define NAMES_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "names/cursor.h"
#include "names/types.h"

/// Kind of body after a header. Zeroed: none, no field has announced one.
struct names_body {
    uint32_t header_bytes; // of the request up to there, with what stands before it
    bool has_length;
    bool is_chunked;
    bool switches;   // the request asks for a tunnel: CONNECT, or Upgrade to WebSocket
    uint64_t length; // with has_length: bytes of the body
};

/// A chunk.
struct names_chunk {
    uint32_t head_bytes;
    uint64_t bytes; // behind the head, with the line end; 0 = it was the last one
};

/// Reads a header field. Returns false if servers may interpret it differently.
bool names_body_field(struct names_cursor name, struct names_cursor value, struct names_body *body);

/// Evaluates the end of the header. minor: of the version, a digit. Returns false if servers may
/// differ in where the body ends.
bool names_body_finish(struct names_cursor method, uint8_t minor, struct names_body *body);

/// Reads the head of a chunk, and with the last one the end of the body.
/// - Returns NAMES_KNOWN with the chunk filled in; NAMES_UNDECIDED if more bytes are needed;
///   NAMES_UNREADABLE if servers may take it differently: it has extensions or trailers, too.
enum names_state names_body_chunk(const uint8_t *bytes, uint32_t length, struct names_chunk *chunk);

#endif
