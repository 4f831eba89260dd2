// SPDX-License-Identifier: GPL-2.0-or-later
// Question of a DNS query. Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#ifndef NAMES_DNS_H
#define NAMES_DNS_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

/// Parses the question of a message to a DNS server.
/// - message: complete message, from its header on.
/// - names: out: all fields are set. Unless the state is NAMES_KNOWN, they are empty, except state
///   and protocol. The root's name is also empty.
/// - Returns names->state: NAMES_KNOWN; or NAMES_UNREADABLE if the message does not have exactly
///   one question, or if the question is cut or malformed.
enum names_state names_dns_query(const uint8_t *message, uint32_t length, struct names *names);

/// Parses the first DNS message in bytes of a TCP stream; a length field precedes the message.
/// Bytes that begin like TLS are unreadable, because a server on port 53 may accept TLS. So a DNS
/// message with the same first bytes is also unreadable.
/// - bytes: received bytes, in order from the message's length field on.
/// - names: out: as in names_dns_query.
/// - taken: out: total size of length field and message; 0 unless the state is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNREADABLE if the bytes begin like TLS, if the total size would
///   exceed NAMES_HELLO_BYTES_MAX bytes, or if a received field or a complete label makes the
///   message unreadable; NAMES_UNDECIDED if bytes are missing; otherwise the result of
///   names_dns_query.
enum names_state names_dns_framed(const uint8_t *bytes, uint32_t length, struct names *names,
                                  uint32_t *taken);

#endif
