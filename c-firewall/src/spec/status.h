// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/statuses.toml: results of decoding a packet's headers.
#ifndef SPEC_STATUS_H
#define SPEC_STATUS_H

#include <stdbool.h>

/// Result of parsing a packet's headers: all were read, a header lies beyond the copied bytes, or
/// the packet is malformed (all from PACKET_EMPTY on).
enum packet_status {
    PACKET_OK,                 // every header was read
    PACKET_BEYOND_COPY,        // a header, of whatever protocol, lies beyond the copied bytes
    PACKET_EMPTY,              // the packet has no bytes
    PACKET_VERSION,            // the first four bits are neither 4 nor 6
    PACKET_IPV4_SHORT,         // fewer than the 20 bytes of an IPv4 header
    PACKET_IPV4_HEADER_LENGTH, // the IPv4 header claims fewer than 20 bytes, or more than the
                               // packet has
    PACKET_IPV4_TOTAL_LENGTH,  // the total length is less than the IPv4 header, or more than the
                               // packet has
    PACKET_IPV4_FRAGMENT_OVERFLOW, // an IPv4 fragment that ends beyond 65535 bytes
    PACKET_IPV6_SHORT,             // fewer than the 40 bytes of an IPv6 header
    PACKET_IPV6_PAYLOAD_LENGTH,    // the payload length is more than the packet has
    PACKET_IPV6_EXTENSION_SHORT,   // an extension header ends beyond the packet
    PACKET_IPV6_EXTENSION_LIMIT,   // more than eight extension headers
    PACKET_IPV6_FRAGMENT_OVERFLOW, // an IPv6 fragment that ends beyond 65535 bytes
    PACKET_TCP_SHORT,              // fewer than the 20 bytes of a TCP header
    PACKET_TCP_DATA_OFFSET, // the TCP header claims fewer than 20 bytes, or more than the packet
                            // has
    PACKET_UDP_SHORT,       // fewer than the 8 bytes of a UDP header
    PACKET_UDP_LENGTH,      // the UDP length is less than 8, or more than the packet has
    PACKET_ICMP_SHORT,      // fewer than the 8 bytes of an ICMP header
    PACKET_ICMPV6_SHORT,    // fewer than the 8 bytes of an ICMPv6 header
    PACKET_STATUS_COUNT
};

/// Returns true if a status means a malformed packet.
bool packet_is_malformed(enum packet_status status);

/// Returns the status' name in reports, e.g. "tcp-data-offset".
const char *packet_status_name(enum packet_status status);

#endif
