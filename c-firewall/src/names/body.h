// SPDX-License-Identifier: GPL-2.0-or-later
// Body of an HTTP/1 request: its length, and the start of the next request. Formats: RFC 9112,
// sections 6 and 7.1 (body, chunks), RFC 9110, section 7.8 (Upgrade).
//
// Theory of operation: servers differ in how they treat a body that violates the RFCs, and some
// read no body where they expect none. After such a body, a request can't be told from the body
// itself.
#ifndef NAMES_BODY_H
#define NAMES_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "names/cursor.h"
#include "names/types.h"

/// Kind of body after a header. Zeroed: none, because no header field has announced one.
struct names_body {
    // Number of bytes up to the header's end, including bytes before the request.
    uint32_t header_bytes;
    bool has_length;
    bool is_chunked;
    bool switches;   // true if the request asks for a tunnel: by CONNECT, or Upgrade to WebSocket
    uint64_t length; // length of the body, if has_length
};

/// A chunk of a body.
struct names_chunk {
    uint32_t head_bytes;
    uint64_t bytes; // number of bytes after the head, with the line end; 0 = it was the last chunk
};

/// Reads a header field. Returns false if servers may interpret it differently.
bool names_body_field(struct names_cursor name, struct names_cursor value, struct names_body *body);

/// Checks the body at the end of the header. Returns false if servers may find different ends of
/// the body.
/// - minor: minor version, a digit.
bool names_body_finish(struct names_cursor method, uint8_t minor, struct names_body *body);

/// Reads the head of a chunk; for the last chunk also the end of the body.
/// - Returns NAMES_KNOWN with the chunk filled in; NAMES_UNDECIDED if bytes are missing;
///   NAMES_UNREADABLE if servers may read it differently, also for extensions or trailers.
enum names_state names_body_chunk(const uint8_t *bytes, uint32_t length, struct names_chunk *chunk);

#endif
