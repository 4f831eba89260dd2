// SPDX-License-Identifier: GPL-2.0-or-later
// Names in a client's first bytes: the host that the client requests, and related fields.
#ifndef NAMES_TYPES_H
#define NAMES_TYPES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    // Maximum length of a host name in bytes, without its final dot (RFC 1035, section 3.1).
    NAMES_HOST_BYTES = 253,
    // Maximum length of the ALPN list (RFC 7301) in bytes; a longer list is unreadable.
    NAMES_ALPN_BYTES = 255,
    // Maximum length of an HTTP method (RFC 9110, section 9) in bytes; a longer method is cut, and
    // equals no method of a policy.
    NAMES_METHOD_BYTES = 16,
};

/// State of a packet's names.
enum names_state {
    NAMES_NONE,      // the packet has no names: the firewall does not read names of its connection
    NAMES_UNDECIDED, // the names are not known yet: bytes of the client are missing
    // All names are read. An empty field means that the client did not send it, or sent it empty.
    NAMES_KNOWN,
    NAMES_UNREADABLE, // the names can't be read: --fail unknown decides
};

/// Protocol in which the client sends names.
enum names_protocol {
    NAMES_OTHER, // none of the protocols below
    NAMES_TLS,   // TLS over TCP (RFC 8446)
    NAMES_QUIC,  // TLS over QUIC (RFC 9001, RFC 9369)
    NAMES_HTTP,  // HTTP/1 without TLS (RFC 9112)
    NAMES_DNS,   // DNS query (RFC 1035)
};

/// Names that a client has sent.
struct names {
    enum names_state state;
    enum names_protocol protocol;
    uint8_t host_length;   // length of host in bytes; 0 = no host name
    uint8_t alpn_length;   // length of alpn in bytes; 0 = no offered protocol
    uint8_t method_length; // length of method in bytes; 0 = none
    // True if the client offers an encrypted ClientHello (extension 0xfe0d), even if its content is
    // random (GREASE).
    bool ech;
    // Highest offered TLS version, as on the wire (0x0304 = TLS 1.3); 0 = none. GREASE values (RFC
    // 8701) don't count.
    uint16_t version;
    uint16_t dns_type; // type of a DNS question (QTYPE)
    /// Server name of TLS, host of HTTP without its port, or name of a DNS query. ASCII letters are
    /// in lower case, and a final dot is removed; the other bytes are as sent.
    uint8_t host[NAMES_HOST_BYTES];
    // Offered ALPN protocols as on the wire: each protocol name follows its length byte.
    uint8_t alpn[NAMES_ALPN_BYTES];
    uint8_t method[NAMES_METHOD_BYTES]; // HTTP method as sent; a longer method is cut
};

#endif
