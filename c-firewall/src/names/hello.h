// SPDX-License-Identifier: GPL-2.0-or-later
// A ClientHello: the server's name, protocols, versions, and whether a part is encrypted.
// Formats: RFC 8446, section 4.1.2 (the message), RFC 6066, section 3 (the server's name), RFC
// 7301, section 3.1 (ALPN), RFC 8701 (GREASE), RFC 9849 (ECH).
#ifndef NAMES_HELLO_H
#define NAMES_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

enum {
    NAMES_HELLO_BYTES_MAX = 16384, // of a ClientHello with its header; a longer one is unreadable
    NAMES_HELLO_CLIENT_HELLO = 1,  // the kind of message that it is
};

/// Whether more bytes of a handshake would not change what names_hello_read says: it is no
/// ClientHello, too long, or whole.
bool names_hello_is_settled(const uint8_t *handshake, uint32_t length);

/// Reads the ClientHello at the start of a handshake.
/// - handshake: the client's handshake messages in order, as far as they came; what follows the
///   first is not looked at.
/// - protocol: of what carries it, NAMES_TLS or NAMES_QUIC.
/// - names: always filled in whole. Fields are empty unless it is NAMES_KNOWN.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing, NAMES_UNREADABLE if it is no
///   ClientHello, is malformed, has an extension twice that is read here, or is longer than
///   NAMES_HELLO_BYTES_MAX.
enum names_state names_hello_read(const uint8_t *handshake, uint32_t length,
                                  enum names_protocol protocol, struct names *names);

/// Bytes of the message at the start of a handshake that names_hello_read has found NAMES_KNOWN.
uint32_t names_hello_length(const uint8_t *handshake, uint32_t length);

/// Whether two messages that are NAMES_KNOWN show the same: a client that answers HelloRetryRequest
/// may change other parts of its hello only (RFC 8446, section 4.1.2).
bool names_hello_is_same(const struct names *first, const struct names *again);

#endif
