// SPDX-License-Identifier: GPL-2.0-or-later
// The question of a DNS query.
// Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#ifndef NAMES_DNS_H
#define NAMES_DNS_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

/// Reads a message that is sent to a server.
/// - message: all of it, from its header on.
/// - names: always filled in whole. Fields are empty unless it is NAMES_KNOWN; the root's name is
///   empty, too.
/// - Returns names->state: NAMES_KNOWN, or NAMES_UNREADABLE if the message has not exactly one
///   question, or that is cut or malformed.
enum names_state names_dns_query(const uint8_t *message, uint32_t length, struct names *names);

/// Reads the first message of a stream, which stands behind its length.
/// - bytes: in order from the message's length on, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - names: as of names_dns_query.
/// - taken: gets the bytes that length and message take; 0 if they did not all come.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing (NAMES_UNREADABLE with whole), else
///   what names_dns_query says.
enum names_state names_dns_framed(const uint8_t *bytes, uint32_t length, bool whole,
                                  struct names *names, uint32_t *taken);

#endif
