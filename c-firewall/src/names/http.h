// SPDX-License-Identifier: GPL-2.0-or-later
// HTTP/1 request: its method and its host. Formats: RFC 9112, sections 2.2, 3 and 5 (the message),
// RFC 9110, sections 4.2, 5.6.2 and 7.2 (authority, token, Host).
//
// Theory of operation: servers may be lenient where the RFCs are strict, each in its own way.
// Therefore a request either obeys the RFCs strictly, or is unreadable. Only bytes that no server
// would read as an HTTP request count as another protocol. For a first line that few servers
// accept, the following lines decide: a line with Host makes it unreadable, the end of the header
// makes it another protocol.
#ifndef NAMES_HTTP_H
#define NAMES_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "names/body.h"
#include "names/progress.h"
#include "names/types.h"

/// Checks whether a stream begins like a request: with a word, which may be a method, and a byte
/// that some server treats as a space; empty lines may come first.
/// - progress: progress in fewer of these bytes, or zeroed; updated.
/// - Returns NAMES_KNOWN if it does, NAMES_UNDECIDED if bytes are missing, NAMES_NONE if it does
///   not.
enum names_state names_http_begins(const uint8_t *bytes, uint32_t length,
                                   struct names_progress *progress);

/// Reads the request at the start of a stream.
/// - bytes: the client's received bytes, in order from the first; names_http_begins must have
///   returned NAMES_KNOWN.
/// - whole: true if no more bytes will be kept: then missing bytes make the names unreadable.
/// - progress: progress of names_http_begins, or in fewer of these bytes; updated.
/// - body: out: kind of body after the header, if the state is NAMES_KNOWN and the protocol
///   NAMES_HTTP.
/// - names: all fields are set; empty unless the state is NAMES_KNOWN. A request without a host
///   leaves the host empty. A method longer than NAMES_METHOD_BYTES is cut and ends with a space,
///   which no method has.
/// - Returns names->state: NAMES_KNOWN at the end of the header, because a second Host may come
///   anywhere in it; NAMES_KNOWN with the protocol NAMES_OTHER if no server accepts the first line
///   as HTTP, or few do and the header has no Host; NAMES_UNDECIDED before (NAMES_UNREADABLE with
///   whole); NAMES_UNREADABLE if servers may read it differently.
enum names_state names_http_read(const uint8_t *bytes, uint32_t length, bool whole,
                                 struct names_progress *progress, struct names_body *body,
                                 struct names *names);

/// Returns true if a line of a stream that is no request begins like a field Host. CR alone also
/// ends a line, as in Python; before the colon it is a blank.
bool names_http_shows_host(const uint8_t *bytes, uint32_t length);

#endif
