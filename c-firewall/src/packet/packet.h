// SPDX-License-Identifier: GPL-2.0-or-later
// Bytes of an IP packet to fields. Pure and total: every input gives a status, nothing outside the
// captured bytes is read. What is malformed has a name, under which it is counted.
// Formats: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 4302 (AH), RFC 9293 (TCP), RFC 768 (UDP), RFC 792
// (ICMP), RFC 4443 (ICMPv6), RFC 2675 (jumbograms, which BIG TCP borrows).
#ifndef PACKET_PACKET_H
#define PACKET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/option.h"
#include "spec/status.h"

enum {
    PACKET_IPV4_HEADER_BYTES = 20,   // without options
    PACKET_IPV6_HEADER_BYTES = 40,   // without extension headers
    PACKET_IPV6_EXTENSION_BYTES = 8, // of an extension header that must be there to know its length
    PACKET_IPV6_EXTENSIONS_MAX = 8,  // extension headers walked; a ninth is malformed
    PACKET_TCP_HEADER_BYTES = 20,    // without options
    PACKET_UDP_HEADER_BYTES = 8,
    PACKET_ICMP_HEADER_BYTES = 8,
    PACKET_LENGTH_MAX = 65535, // maximum of a 16-bit length field
    // The bytes of a packet that show whether it is malformed: IPv6, as many extension headers as
    // are walked of the least length, and TCP, which are 124; IPv4 needs 80 with all options.
    PACKET_COPY_BYTES = OPTION_COPY_BYTES_FAST,
};

/// IPv6 extension headers, as bits.
enum packet_extension {
    PACKET_HBH = 1 << 0,  // hop-by-hop options
    PACKET_RT = 1 << 1,   // routing
    PACKET_FRAG = 1 << 2, // fragment
    PACKET_DST = 1 << 3,  // destination options
    PACKET_MH = 1 << 4,   // mobility, which ends the walk
};

/// The fields of a packet. Those read before a problem was met stay filled in, the others are
/// 0.
struct packet {
    const uint8_t *bytes; // from the IP header on; borrowed
    uint32_t captured;    // bytes that can be read at `bytes`
    uint32_t original;    // bytes that the packet has in the kernel, >= captured
    uint8_t version;      // 4, 6; 0 = neither or not seen
    uint8_t protocol;     // IPv4 protocol, or the last IPv6 next header reached
    bool fragment;        // more fragments follow, or this is not the first
    bool later_fragment;  // not the first: carries no layer 4 header
    uint32_t l4_offset;   // bytes from the IP header to the layer 4 header; 0 = not reached
    uint32_t end;         // bytes that the IP header claims; 0 = not known
    uint8_t extensions;   // enum packet_extension: those that were met
    // The way to the transport header ends where the captured bytes do: which extension headers and
    // which protocol follow isn't known. Without it, what wasn't met isn't in the packet.
    bool headers_beyond;
    // Transport header as nf_tables sees it: as protocol and l4_offset,
    // but AH ends the walk (nft_set_pktinfo_ipv6), and a later fragment has a protocol, of IPv6
    // unless it is an extension header's (ipv6_find_hdr).
    bool has_transport;
    uint8_t transport_protocol; // with has_transport
    uint32_t transport_offset;  // with has_transport; 0 = in a later fragment
    bool has_ports;
    uint16_t source_port;      // host order
    uint16_t destination_port; // host order
    bool has_tcp_flags;
    uint8_t tcp_flags; // byte 13 of the TCP header
    bool has_icmp;     // ICMP in IPv4, ICMPv6 in IPv6
    uint8_t icmp_type;
    uint8_t icmp_code;
};

/// Parses a packet.
/// - bytes: from the IP header on, captured bytes long; may be NULL if captured is 0.
/// - original: the packet's length in the kernel, in bytes; less than captured is taken as
///   captured.
/// - Always fills in packet (the caller keeps bytes alive).
/// - Cannot fail: the status says what was found.
enum packet_status packet_parse(const uint8_t *bytes, uint32_t captured, uint32_t original,
                                struct packet *packet);

/// Bytes of an address of the packet's version, 4 or 6.
uint32_t packet_address_bytes(const struct packet *packet);

/// The two addresses of the IP header side by side, source first; NULL if they were not captured.
const uint8_t *packet_addresses(const struct packet *packet);

#endif
