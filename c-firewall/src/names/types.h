// SPDX-License-Identifier: GPL-2.0-or-later
// What a client shows of itself in its first bytes: the name it asks for, and what stands beside
// it.
#ifndef NAMES_TYPES_H
#define NAMES_TYPES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NAMES_HOST_BYTES = 253,  // of a host's name without the dot at its end (RFC 1035, section 3.1)
    NAMES_ALPN_BYTES = 255,  // of the list of protocols (RFC 7301); a longer one is unreadable
    NAMES_METHOD_BYTES = 16, // of a method (RFC 9110, section 9); a longer one is cut
};

/// State of a packet's names.
enum names_state {
    NAMES_NONE,       // it belongs to nobody that names are looked for in: it has no field of them
    NAMES_UNDECIDED,  // the client has not shown enough yet
    NAMES_KNOWN,      // all is read: what is not there is missing
    NAMES_UNREADABLE, // it can't be read, and never will: --fail unknown decides
};

/// Protocol of the client.
enum names_protocol {
    NAMES_OTHER, // none of the others
    NAMES_TLS,   // TLS over TCP (RFC 8446)
    NAMES_QUIC,  // TLS over QUIC (RFC 9001, RFC 9369)
    NAMES_HTTP,  // HTTP/1 without TLS (RFC 9112)
    NAMES_DNS,   // a query of DNS (RFC 1035)
};

/// Names that a client has sent.
struct names {
    enum names_state state;
    enum names_protocol protocol;
    uint8_t host_length;   // bytes of host; 0 = it named none
    uint8_t alpn_length;   // bytes of alpn; 0 = it offered none
    uint8_t method_length; // bytes of method; 0 = none
    bool ech;              // offers an encrypted ClientHello (extension 0xfe0d), be it GREASE
    uint16_t version;      // highest of TLS offered, as on the wire (0x0304 = 1.3); 0 = none
    uint16_t dns_type;     // that a query of DNS asks for
    /// The server's name of TLS, the host of HTTP without its port, or the name of a DNS query: in
    /// lower case (ASCII), without a dot at its end, else as it came.
    uint8_t host[NAMES_HOST_BYTES];
    uint8_t alpn[NAMES_ALPN_BYTES];     // the protocols offered, each behind its length
    uint8_t method[NAMES_METHOD_BYTES]; // the method of HTTP, as it came
};

#endif
