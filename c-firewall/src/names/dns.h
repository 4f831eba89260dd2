// SPDX-License-Identifier: GPL-2.0-or-later
// Question of a DNS query. Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#ifndef NAMES_DNS_H
#define NAMES_DNS_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

/// Reads a message to a server.
/// - message: complete message from its header on.
/// - names: all fields are set; empty unless the state is NAMES_KNOWN; the root's name is empty,
///   too.
/// - Returns names->state: NAMES_KNOWN, or NAMES_UNREADABLE if the message does not have exactly
///   one question, or the question is cut or malformed.
enum names_state names_dns_query(const uint8_t *message, uint32_t length, struct names *names);

/// Reads the first message of a stream, which has its length before it. A stream that begins as TLS
/// does is unreadable, although a message can begin so, too: a server on port 53 may speak TLS.
/// - bytes: received bytes, in order from the message's length on.
/// - names: as in names_dns_query.
/// - taken: out: number of bytes of length and message; 0 unless the state is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNREADABLE as soon as the bytes can't become a message that
///   names_dns_query reads, and that has, with its length, at most NAMES_HELLO_BYTES_MAX bytes;
///   NAMES_UNDECIDED if bytes are missing; otherwise the result of names_dns_query.
enum names_state names_dns_framed(const uint8_t *bytes, uint32_t length, struct names *names,
                                  uint32_t *taken);

#endif
