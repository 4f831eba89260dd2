// SPDX-License-Identifier: GPL-2.0-or-later
// Body of an HTTP/1 request: its length, and the start of the next request. Formats: RFC 9112,
// sections 6 and 7.1 (body, chunks), RFC 9110, section 7.8 (Upgrade).
//
// Theory of operation: servers treat a body that violates the RFCs differently, and some servers
// read no body after a request that usually has none. The start of the next request after such a
// body is therefore unknown.
#ifndef NAMES_BODY_H
#define NAMES_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "names/cursor.h"
#include "names/types.h"

/// Kind of body after a request's header. Zeroes mean no body: no header field has announced a
/// body.
struct names_body {
    // Number of bytes up to the header's end, including empty lines before the request.
    uint32_t header_bytes;
    bool has_length;
    bool is_chunked;
    // True if the request asks for a tunnel by the method CONNECT, or for WebSocket by the field
    // Upgrade, and offers no other protocol.
    bool switches;
    bool offers_others; // true if a field Upgrade offers another protocol than WebSocket
    uint64_t length;    // length of the body in bytes, if has_length
};

/// Chunk of a body (RFC 9112, section 7.1).
struct names_chunk {
    uint32_t head_bytes;
    // Number of bytes of the chunk's data and the line end after the data; 0 = last chunk.
    uint64_t bytes;
};

/// Parses a header field: stores Content-Length, and notes Transfer-Encoding (chunked) and Upgrade
/// (to websocket or to another protocol). Other fields are ignored. Returns false if servers may
/// interpret the field differently.
bool names_body_field(struct names_cursor name, struct names_cursor value, struct names_body *body);

/// Checks a request's kind of body after the last header field. Returns false if servers may find
/// different ends of the body. Completes body->switches: the method CONNECT sets it. An offer of
/// another protocol than WebSocket clears it.
/// - minor: minor version of HTTP, an ASCII digit.
bool names_body_finish(struct names_cursor method, uint8_t minor, struct names_body *body);

/// Parses the head of a chunk, and for the last chunk also the end of the body.
/// - Returns NAMES_KNOWN with the chunk filled in; NAMES_UNDECIDED if bytes are missing;
///   NAMES_UNREADABLE if servers may read the head differently, and for chunk extensions and
///   trailers.
enum names_state names_body_chunk(const uint8_t *bytes, uint32_t length, struct names_chunk *chunk);

#endif
