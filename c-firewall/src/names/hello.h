// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of a ClientHello: server name, ALPN protocols, TLS versions, and whether a part is
// encrypted. Formats: RFC 8446, section 4.1.2 (the message), RFC 6066, section 3 (server name), RFC
// 7301, section 3.1 (ALPN), RFC 8701 (GREASE), RFC 9849 (ECH).
#ifndef NAMES_HELLO_H
#define NAMES_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

enum {
    // Maximum size of a ClientHello with its header in bytes; a longer ClientHello is unreadable.
    NAMES_HELLO_BYTES_MAX = 16384,
    NAMES_HELLO_HEADER_BYTES = 4, // size of a handshake message's type and length, in bytes
    NAMES_HELLO_CLIENT_HELLO = 1, // type of a ClientHello message
};

/// Returns true if more bytes of a handshake would not change the result of names_hello_parse: the
/// first message is no ClientHello, is too long, or is complete.
/// - head: first bytes of the handshake, at least the received part of the message's header.
/// - came: number of received bytes of the handshake.
bool names_hello_is_settled(const uint8_t *head, uint32_t came);

/// Parses the ClientHello at the start of a handshake.
/// - handshake: received bytes of the client's handshake messages, in order; only the first message
///   is parsed.
/// - protocol: protocol that carries the handshake: NAMES_TLS or NAMES_QUIC.
/// - names: out: all fields are set. Unless the state is NAMES_KNOWN, they are empty, except state
///   and protocol.
/// - Returns names->state: NAMES_UNDECIDED if bytes are missing; NAMES_UNREADABLE if the message is
///   no ClientHello, is malformed, repeats an extension that is parsed here, or is longer than
///   NAMES_HELLO_BYTES_MAX.
enum names_state names_hello_parse(const uint8_t *handshake, uint32_t length,
                                   enum names_protocol protocol, struct names *names);

/// Returns the length in bytes, with its header, of the first message of a handshake for which
/// names_hello_parse has returned NAMES_KNOWN.
uint32_t names_hello_length(const uint8_t *handshake, uint32_t length);

/// Returns true if two ClientHellos, both NAMES_KNOWN, have the same host, ALPN list, highest
/// version and offer of ECH. In the answer to a HelloRetryRequest, a client may change only other
/// parts (RFC 8446, section 4.1.2).
bool names_hello_is_same(const struct names *first, const struct names *again);

#endif
