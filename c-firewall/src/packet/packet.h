// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of an IP packet's headers. It has no side effects. Every input has a status, and only
// captured bytes are read. Each kind of malformed packet has a name, under which it is counted.
//
// Formats: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 4302 (AH), RFC 9293 (TCP), RFC 768 (UDP), RFC 792
// (ICMP), RFC 4443 (ICMPv6), RFC 2675 (jumbograms, which BIG TCP uses, too).
#ifndef PACKET_PACKET_H
#define PACKET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/option.h"
#include "spec/status.h"

enum {
    PACKET_IPV4_HEADER_BYTES = 20, // size of the IPv4 header without options, in bytes
    PACKET_IPV6_HEADER_BYTES = 40, // size of the IPv6 header without extension headers, in bytes
    // Minimum size of an extension header, in bytes. These bytes contain its length.
    PACKET_IPV6_EXTENSION_BYTES = 8,
    // Maximum number of extension headers; a packet with more is malformed.
    PACKET_IPV6_EXTENSIONS_MAX = 8,
    PACKET_TCP_HEADER_BYTES = 20, // size of the TCP header without options, in bytes
    PACKET_TCP_SEQUENCE_OFFSET = 4,
    PACKET_TCP_ACKNOWLEDGED_OFFSET = 8,
    // Offset of the byte whose upper 4 bits are the TCP header's length in words of 4 bytes.
    PACKET_TCP_LENGTH_OFFSET = 12,
    PACKET_TCP_FLAGS_OFFSET = 13,
    PACKET_UDP_HEADER_BYTES = 8,
    PACKET_UDP_LENGTH_OFFSET = 4,
    PACKET_ICMP_HEADER_BYTES = 8,
    PACKET_LENGTH_MAX = 65535, // maximum of a 16-bit length field
    // Number of captured bytes that suffice to detect a malformed packet, unless its extension
    // headers are longer than the minimum. Needed are 124 for IPv6 with the maximum number of
    // extension headers and TCP, 80 for IPv4 with all options and TCP.
    PACKET_COPY_BYTES = OPTION_COPY_BYTES_FAST,
};

/// Bits of packet.extensions, one for each of these types of IPv6 extension headers.
enum packet_extension {
    PACKET_HBH = 1 << 0,  // bit for hop-by-hop options
    PACKET_RT = 1 << 1,   // bit for a routing header
    PACKET_FRAG = 1 << 2, // bit for a fragment header
    PACKET_DST = 1 << 3,  // bit for destination options
    PACKET_MH = 1 << 4,   // bit for a mobility header, at which the parser ends
};

/// Fields of a packet. If parsing ends with an error, the fields parsed so far stay filled in, and
/// the other fields are 0.
struct packet {
    const uint8_t *bytes; // captured bytes, from the IP header on; borrowed
    uint32_t captured;    // number of captured bytes
    uint32_t original;    // length of the packet in the kernel in bytes, at least captured
    uint8_t version;      // version of IP: 4 or 6; 0 = another version, or not captured
    uint8_t protocol;     // IPv4 protocol, or the last next header of IPv6 that was parsed
    bool fragment;        // true if the packet is a fragment
    // True if the packet is a fragment other than the first: it has no layer 4 header.
    bool later_fragment;
    uint32_t l4_offset; // offset of the layer 4 header from the IP header; 0 = not found
    // Length of the packet in bytes, as its IP header states it, or original if the length does not
    // fit into the header; 0 = unknown.
    uint32_t end;
    // Bits of the IPv6 extension headers that were found (enum packet_extension); AH has no bit.
    uint8_t extensions;
    // True if the IP header (without options) or an extension header is beyond the captured bytes:
    // it is unknown which extension headers and which protocol follow. If false, headers that were
    // not found are not in the packet, unless it is malformed.
    bool headers_beyond;
    // True if nf_tables finds a transport header. transport_protocol and transport_offset can
    // differ from protocol and l4_offset: for example, AH counts as the transport header
    // (nft_set_pktinfo_ipv6). A later fragment has a transport protocol, too; in IPv6 only if it is
    // no extension header (ipv6_find_hdr).
    bool has_transport;
    uint8_t transport_protocol; // protocol that nf_tables finds, if has_transport
    // Offset of the transport header that nf_tables finds, from the IP header, if has_transport; 0
    // = later fragment.
    uint32_t transport_offset;
    bool has_ports;
    uint16_t source_port;      // source port in host order, if has_ports
    uint16_t destination_port; // destination port in host order, if has_ports
    bool has_tcp_flags;
    uint8_t tcp_flags; // flags of TCP (byte 13 of its header), if has_tcp_flags
    bool has_icmp;     // true if type and code of ICMP (in IPv4) or ICMPv6 (in IPv6) were read
    uint8_t icmp_type;
    uint8_t icmp_code;
};

/// Parses a packet.
/// - bytes: captured bytes, from the IP header on; may be NULL if captured is 0.
/// - original: length of the packet in the kernel, in bytes; at least captured is assumed.
/// - packet: out: always filled in; it points into bytes.
/// - Returns the status; every input has a status.
enum packet_status packet_parse(const uint8_t *bytes, uint32_t captured, uint32_t original,
                                struct packet *packet);

/// Returns true if an IPv6 header of this type is an extension header that the parser reads. If
/// packet.protocol is such a type, the parser has ended there: the protocols after it are unknown.
bool packet_is_extension(uint8_t next_header);

/// Returns the length of an IP address in bytes: 4 or 16, by the packet's IP version.
uint32_t packet_address_bytes(const struct packet *packet);

/// Returns the two adjacent addresses of the IP header in network order, source first. Returns NULL
/// if they were not captured, or if the IP version is unknown.
const uint8_t *packet_addresses(const struct packet *packet);

#endif
