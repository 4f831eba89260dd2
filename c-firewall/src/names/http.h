// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of an HTTP/1 request: its method and host. Formats: RFC 9112, sections 2.2, 3 and 5 (the
// message), RFC 9110, sections 4.2, 5.6.2 and 7.2 (authority, token, Host).
//
// Theory of operation: servers may accept requests that violate the RFCs, and not all servers
// accept the same requests. Therefore a request that violates the RFCs is unreadable. Only bytes
// that no server would read as an HTTP request count as another protocol. If only few servers
// accept the first line, the following lines decide: a line with Host makes the names unreadable;
// the end of the header without Host means another protocol.
#ifndef NAMES_HTTP_H
#define NAMES_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "names/body.h"
#include "names/progress.h"
#include "names/types.h"

/// Checks whether bytes begin like a request: with a word that may be a method, and a byte that
/// some server treats as a space. Spaces and line ends may precede the word.
/// - progress: in: progress of an earlier call with fewer of these bytes, or zeroed; out: new
///   progress.
/// - Returns NAMES_KNOWN if they do, NAMES_UNDECIDED if bytes are missing, NAMES_NONE if they do
///   not.
enum names_state names_http_begins(const uint8_t *bytes, uint32_t length,
                                   struct names_progress *progress);

/// Parses the request at the start of a client's bytes.
/// - bytes: received bytes of the client, in order from the stream's first byte or the previous
///   request's end on. names_http_begins must have returned NAMES_KNOWN.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - progress: in: progress of names_http_begins, or of an earlier call with fewer of these bytes;
///   out: new progress.
/// - body: out: kind of body after the header, if the state is NAMES_KNOWN and the protocol is
///   NAMES_HTTP.
/// - names: out: all fields are set. Unless the state is NAMES_KNOWN, they are empty, except state
///   and protocol. The host is empty if the request has none. A method longer than
///   NAMES_METHOD_BYTES is cut and ends with a space, so that it equals no other method.
/// - Returns names->state: NAMES_KNOWN at the end of the header, because a second Host may come
///   anywhere in it; NAMES_KNOWN with the protocol NAMES_OTHER if no server accepts the first line
///   as HTTP, or only few servers do and the header has no Host; NAMES_UNDECIDED before
///   (NAMES_UNREADABLE with whole); NAMES_UNREADABLE if servers may read the request differently.
enum names_state names_http_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                  struct names_progress *progress, struct names_body *body,
                                  struct names *names);

/// Returns true if any line of some bytes begins like a field Host. CR alone also ends a line, as
/// in Python, but between name and colon it is a blank.
bool names_http_shows_host(const uint8_t *bytes, uint32_t length);

#endif
