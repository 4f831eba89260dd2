// SPDX-License-Identifier: GPL-2.0-or-later
// A request of HTTP/1: its method and its host.
// Formats: RFC 9112, sections 2.2, 3 and 5 (the message), RFC 9110, sections 4.2, 5.6.2 and 7.2
// (authority, token, Host).
//
// Theory of operation: a server may be lenient where the RFCs are strict, each in its own way. So a
// request is either as strict as they ask, or unreadable; only what no server would take for a
// request of HTTP is another protocol. A first line that few servers take is told by what follows:
// a line of Host makes it unreadable, the end of the header another protocol.
#ifndef NAMES_HTTP_H
#define NAMES_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "names/body.h"
#include "names/types.h"

/// Whether a stream begins as a request does: with a word, which may be a method, and what some
/// server takes for a space; maybe behind empty lines.
/// - Returns NAMES_KNOWN if it does, NAMES_UNDECIDED if more bytes are needed to tell, NAMES_NONE
/// if
///   it does not.
enum names_state names_http_begins(const uint8_t *bytes, uint32_t length);

/// Reads the request that a stream begins with.
/// - bytes: the client's first bytes in order, as far as they came, for which names_http_begins
/// says
///   NAMES_KNOWN.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - body: gets what follows the header, if it is NAMES_KNOWN with the protocol NAMES_HTTP.
/// - names: always filled in whole. Fields are empty unless it is NAMES_KNOWN; without a host in
/// the
///   request the host is. A method longer than NAMES_METHOD_BYTES is cut and ends with a space,
///   which no method has.
/// - Returns names->state: NAMES_KNOWN at the end of the header, since a second Host may stand
///   anywhere in it; NAMES_KNOWN with the protocol NAMES_OTHER if no server takes the first line
///   for one of HTTP, or few do and the header has no Host; NAMES_UNDECIDED before
///   (NAMES_UNREADABLE with whole); NAMES_UNREADABLE if servers may take it differently.
enum names_state names_http_read(const uint8_t *bytes, uint32_t length, bool whole,
                                 struct names_body *body, struct names *names);

/// Whether a line of a stream that is no request begins as a field Host does. CR alone ends a line,
/// too, as to Python; before the colon it is a blank.
bool names_http_shows_host(const uint8_t *bytes, uint32_t length);

#endif
