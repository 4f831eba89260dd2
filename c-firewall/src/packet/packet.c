// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/packet.h"

#include <netinet/in.h>
#include <stddef.h>

enum {
    // Offset of the byte whose lower 4 bits are the IPv4 header's length in words of 4 bytes.
    IPV4_HEADER_LENGTH_OFFSET = 0,
    IPV4_HEADER_LENGTH_MASK = 0x0f, // mask of the header's length at IPV4_HEADER_LENGTH_OFFSET
    IPV4_TOTAL_LENGTH_OFFSET = 2,
    IPV4_FRAGMENT_OFFSET = 6, // offset of the 16 bits of flags and fragment offset
    IPV4_PROTOCOL_OFFSET = 9,
    IPV4_ADDRESSES_OFFSET = 12, // offset of the source address; the destination address follows it
    IPV4_ADDRESS_BYTES = 4,
    IPV6_PAYLOAD_LENGTH_OFFSET = 4,
    IPV6_NEXT_HEADER_OFFSET = 6,
    IPV6_ADDRESSES_OFFSET = 8, // offset of the source address; the destination address follows it
    IPV6_ADDRESS_BYTES = 16,
    // Offsets in an extension header.
    EXTENSION_NEXT_HEADER_OFFSET = 0,
    EXTENSION_LENGTH_OFFSET = 1,
    // Offset of the 16 bits of fragment offset and flags in the IPv6 fragment header.
    EXTENSION_FRAGMENT_OFFSET = 2,
    SOURCE_PORT_OFFSET = 0,
    DESTINATION_PORT_OFFSET = 2,
    ICMP_TYPE_OFFSET = 0,
    ICMP_CODE_OFFSET = 1,
    // Flag MF in the 16 bits of flags and fragment offset of the IPv4 header.
    IPV4_MORE_FRAGMENTS = 0x2000,
    IPV4_OFFSET_MASK = 0x1fff, // mask of the fragment offset without the flags, in units of 8 bytes
    // Flag M in the 16 bits of fragment offset and flags of the fragment header.
    IPV6_MORE_FRAGMENTS = 0x0001,
    IPV6_OFFSET_MASK = 0xfff8, // mask of the fragment offset without the flags, in bytes
    PORTS_BYTES = 4,           // size of the ports at the start of TCP and UDP headers
    ICMP_TYPE_CODE_BYTES = 2,  // size of type and code at the start of ICMP headers
};

static uint16_t be16(const uint8_t *bytes) { return (uint16_t)(bytes[0] << 8 | bytes[1]); }

/// Returns true if `bytes` bytes at an offset lie before the packet's end, as its IP header states
/// it.
static bool fits(const struct packet *packet, uint32_t offset, uint32_t bytes) {
    return offset <= packet->end && bytes <= packet->end - offset;
}

/// Returns the header of `bytes` bytes at an offset; NULL unless all of these bytes were captured.
static const uint8_t *header_at(const struct packet *packet, uint32_t offset, uint32_t bytes) {
    if (offset > packet->captured || bytes > packet->captured - offset)
        return NULL;
    return packet->bytes + offset;
}

/// Parses the ports if the packet has their bytes and these were captured, even if the rest of the
/// header is missing.
static void parse_ports(struct packet *packet) {
    const uint8_t *ports = header_at(packet, packet->l4_offset, PORTS_BYTES);

    if (!ports || !fits(packet, packet->l4_offset, PORTS_BYTES))
        return;
    packet->has_ports = true;
    packet->source_port = be16(ports + SOURCE_PORT_OFFSET);
    packet->destination_port = be16(ports + DESTINATION_PORT_OFFSET);
}

static enum packet_status parse_tcp(struct packet *packet) {
    const uint32_t available = packet->end - packet->l4_offset;
    const uint8_t *tcp = header_at(packet, packet->l4_offset, PACKET_TCP_HEADER_BYTES);
    uint32_t header_bytes;

    parse_ports(packet);
    if (available < PACKET_TCP_HEADER_BYTES)
        return PACKET_TCP_SHORT;
    if (!tcp)
        return PACKET_BEYOND_COPY;
    packet->has_tcp_flags = true;
    packet->tcp_flags = tcp[PACKET_TCP_FLAGS_OFFSET];
    header_bytes = (tcp[PACKET_TCP_LENGTH_OFFSET] >> 4) * 4U;
    if (header_bytes < PACKET_TCP_HEADER_BYTES || header_bytes > available)
        return PACKET_TCP_DATA_OFFSET;
    return PACKET_OK;
}

static enum packet_status parse_udp(struct packet *packet) {
    const uint32_t available = packet->end - packet->l4_offset;
    const uint8_t *udp = header_at(packet, packet->l4_offset, PACKET_UDP_HEADER_BYTES);
    uint32_t length;

    parse_ports(packet);
    if (available < PACKET_UDP_HEADER_BYTES)
        return PACKET_UDP_SHORT;
    if (!udp)
        return PACKET_BEYOND_COPY;
    length = be16(udp + PACKET_UDP_LENGTH_OFFSET);
    if (length == 0 && available > PACKET_LENGTH_MAX)
        return PACKET_OK; // a GSO packet or a jumbogram, whose length does not fit into the field
    if (length < PACKET_UDP_HEADER_BYTES)
        return PACKET_UDP_LENGTH;
    if (length > available && !packet->fragment)
        return PACKET_UDP_LENGTH;
    return PACKET_OK;
}

/// Parses ICMP or ICMPv6, whose headers begin with the same fields.
/// - short_status: status if the packet ends within its ICMP header.
static enum packet_status parse_icmp(struct packet *packet, enum packet_status short_status) {
    const uint32_t available = packet->end - packet->l4_offset;
    const uint8_t *icmp = header_at(packet, packet->l4_offset, ICMP_TYPE_CODE_BYTES);

    if (icmp && available >= ICMP_TYPE_CODE_BYTES) {
        packet->has_icmp = true;
        packet->icmp_type = icmp[ICMP_TYPE_OFFSET];
        packet->icmp_code = icmp[ICMP_CODE_OFFSET];
    }
    if (available < PACKET_ICMP_HEADER_BYTES)
        return short_status;
    if (!header_at(packet, packet->l4_offset, PACKET_ICMP_HEADER_BYTES))
        return PACKET_BEYOND_COPY;
    return PACKET_OK;
}

/// Sets the transport header that nf_tables sees, if it is not set yet: an earlier AH stays.
static void set_transport(struct packet *packet, uint8_t protocol, uint32_t offset) {
    if (packet->has_transport)
        return;
    packet->has_transport = true;
    packet->transport_protocol = protocol;
    packet->transport_offset = offset;
}

/// Returns the status of a packet with a protocol that is not parsed: PACKET_OK if the first four
/// bytes of its layer 4 (all, if there are fewer) were captured, otherwise PACKET_BEYOND_COPY.
/// Policies read these bytes: in SCTP, for example, they are the ports.
static enum packet_status parse_other(const struct packet *packet) {
    const uint32_t available = packet->end - packet->l4_offset;
    const uint32_t bytes = available < PORTS_BYTES ? available : PORTS_BYTES;

    return header_at(packet, packet->l4_offset, bytes) ? PACKET_OK : PACKET_BEYOND_COPY;
}

/// Parses the layer 4 header of packet.protocol and returns its status.
/// - offset: at most packet->end.
static enum packet_status parse_l4(struct packet *packet, uint32_t offset) {
    packet->l4_offset = offset;
    if (packet->protocol == IPPROTO_TCP)
        return parse_tcp(packet);
    if (packet->protocol == IPPROTO_UDP)
        return parse_udp(packet);
    if (packet->version == 4 && packet->protocol == IPPROTO_ICMP)
        return parse_icmp(packet, PACKET_ICMP_SHORT);
    if (packet->version == 6 && packet->protocol == IPPROTO_ICMPV6)
        return parse_icmp(packet, PACKET_ICMPV6_SHORT);
    return parse_other(packet);
}

/// Records that the captured bytes do not contain the whole IP header. Returns PACKET_BEYOND_COPY.
static enum packet_status cut_headers(struct packet *packet) {
    packet->headers_beyond = true;
    return PACKET_BEYOND_COPY;
}

static enum packet_status parse_ipv4(struct packet *packet) {
    const uint8_t *ip = header_at(packet, 0, PACKET_IPV4_HEADER_BYTES);
    uint32_t header_bytes, total_bytes, flags_offset, fragment_offset;

    if (packet->original < PACKET_IPV4_HEADER_BYTES)
        return PACKET_IPV4_SHORT;
    if (!ip)
        return cut_headers(packet);

    header_bytes = (ip[IPV4_HEADER_LENGTH_OFFSET] & IPV4_HEADER_LENGTH_MASK) * 4U;
    if (header_bytes < PACKET_IPV4_HEADER_BYTES || header_bytes > packet->original)
        return PACKET_IPV4_HEADER_LENGTH;
    total_bytes = be16(ip + IPV4_TOTAL_LENGTH_OFFSET);
    if (total_bytes == 0 && packet->original > PACKET_LENGTH_MAX)
        total_bytes = packet->original; // a GSO packet, whose length does not fit into the field
    if (total_bytes < header_bytes || total_bytes > packet->original)
        return PACKET_IPV4_TOTAL_LENGTH;
    packet->end = total_bytes;
    packet->protocol = ip[IPV4_PROTOCOL_OFFSET];

    flags_offset = be16(ip + IPV4_FRAGMENT_OFFSET);
    fragment_offset = (flags_offset & IPV4_OFFSET_MASK) * 8;
    set_transport(packet, packet->protocol, fragment_offset > 0 ? 0 : header_bytes);
    if (fragment_offset > 0 && packet->end - header_bytes > PACKET_LENGTH_MAX - fragment_offset)
        return PACKET_IPV4_FRAGMENT_OVERFLOW;
    packet->fragment = fragment_offset > 0 || (flags_offset & IPV4_MORE_FRAGMENTS);
    packet->later_fragment = fragment_offset > 0;
    if (packet->later_fragment)
        return PACKET_OK;
    if (!header_at(packet, 0, header_bytes))
        return PACKET_BEYOND_COPY;
    return parse_l4(packet, header_bytes);
}

bool packet_is_extension(uint8_t next_header) {
    return next_header == IPPROTO_HOPOPTS || next_header == IPPROTO_ROUTING ||
           next_header == IPPROTO_FRAGMENT || next_header == IPPROTO_AH ||
           next_header == IPPROTO_DSTOPTS;
}

/// Returns the bit of an extension header in packet.extensions; 0 = none.
static uint8_t extension_bit(uint8_t next_header) {
    switch (next_header) {
    case IPPROTO_HOPOPTS:
        return PACKET_HBH;
    case IPPROTO_ROUTING:
        return PACKET_RT;
    case IPPROTO_FRAGMENT:
        return PACKET_FRAG;
    case IPPROTO_DSTOPTS:
        return PACKET_DST;
    case IPPROTO_MH:
        return PACKET_MH;
    default:
        return 0;
    }
}

/// Returns the length of an extension header in bytes (RFC 8200 section 4, RFC 4302 section 2.2).
/// - length: second byte of the extension header, in units of 8 bytes (AH: 4 bytes).
static uint32_t extension_bytes(uint8_t type, uint8_t length) {
    if (type == IPPROTO_FRAGMENT)
        return PACKET_IPV6_EXTENSION_BYTES;
    if (type == IPPROTO_AH)
        return (length + 2U) * 4;
    return (length + 1U) * 8;
}

/// Parses the fragment header at an offset. For a later fragment it sets later_fragment and
/// protocol, because such a fragment has no further headers.
static enum packet_status parse_ipv6_fragment(struct packet *packet, uint32_t offset,
                                              const uint8_t *extension) {
    const uint32_t offset_flags = be16(extension + EXTENSION_FRAGMENT_OFFSET);
    const uint32_t fragment_offset = offset_flags & IPV6_OFFSET_MASK;
    const uint32_t fragment_bytes = packet->end - offset - PACKET_IPV6_EXTENSION_BYTES;

    // An atomic fragment (RFC 6946) is a complete packet.
    if (fragment_offset > 0 || (offset_flags & IPV6_MORE_FRAGMENTS))
        packet->fragment = true;
    if (fragment_offset == 0)
        return PACKET_OK;
    if (fragment_bytes > PACKET_LENGTH_MAX - fragment_offset)
        return PACKET_IPV6_FRAGMENT_OVERFLOW;
    packet->later_fragment = true;
    packet->protocol = extension[EXTENSION_NEXT_HEADER_OFFSET];
    return PACKET_OK;
}

/// Parses the extension headers, until the first other header, "no next header" or a later
/// fragment.
/// - offset: in: offset of the first extension header; out: offset at which the loop ended.
static enum packet_status walk_extensions(struct packet *packet, uint32_t *offset) {
    for (int extensions = 0; packet_is_extension(packet->protocol); extensions++) {
        const uint8_t *extension = header_at(packet, *offset, PACKET_IPV6_EXTENSION_BYTES);
        uint32_t bytes;

        // If the captured bytes end within the chain, its length is unknown. Therefore this check
        // precedes the limit's check.
        if (!extension && fits(packet, *offset, PACKET_IPV6_EXTENSION_BYTES))
            return PACKET_BEYOND_COPY;
        if (extensions == PACKET_IPV6_EXTENSIONS_MAX)
            return PACKET_IPV6_EXTENSION_LIMIT;
        if (!extension || !fits(packet, *offset, PACKET_IPV6_EXTENSION_BYTES))
            return PACKET_IPV6_EXTENSION_SHORT;
        bytes = extension_bytes(packet->protocol, extension[EXTENSION_LENGTH_OFFSET]);
        if (!fits(packet, *offset, bytes))
            return PACKET_IPV6_EXTENSION_SHORT;
        if (packet->protocol == IPPROTO_FRAGMENT) {
            const enum packet_status status = parse_ipv6_fragment(packet, *offset, extension);

            if (status != PACKET_OK || packet->later_fragment)
                return status;
        }
        packet->protocol = extension[EXTENSION_NEXT_HEADER_OFFSET];
        *offset += bytes;
    }
    return PACKET_OK;
}

/// Returns the number of bytes that ipv6_find_hdr reads of an extension header.
static uint32_t extension_read_bytes(uint8_t type) {
    return type == IPPROTO_ROUTING || type == IPPROTO_FRAGMENT ? 4 : 2;
}

/// Finds the transport header like the kernel's ipv6_find_hdr. Accepts any number of extension
/// headers, and lengths beyond the packet's end. An authentication header (AH) counts as the
/// transport header. Stops at an extension header with missing bytes. Sets headers_beyond if the
/// packet has these bytes but they were not captured.
static void find_transport(struct packet *packet, uint8_t next_header) {
    uint32_t offset = PACKET_IPV6_HEADER_BYTES;

    while (packet_is_extension(next_header)) {
        const uint32_t bytes = extension_read_bytes(next_header);
        const uint8_t *extension = header_at(packet, offset, bytes);

        if (!fits(packet, offset, bytes))
            return;
        if (!extension) {
            packet->headers_beyond = true;
            return;
        }
        packet->extensions |= extension_bit(next_header);
        if (next_header == IPPROTO_AH)
            set_transport(packet, IPPROTO_AH, offset);
        if (next_header == IPPROTO_FRAGMENT &&
            (be16(extension + EXTENSION_FRAGMENT_OFFSET) & IPV6_OFFSET_MASK)) {
            if (!packet_is_extension(extension[EXTENSION_NEXT_HEADER_OFFSET]))
                set_transport(packet, extension[EXTENSION_NEXT_HEADER_OFFSET], 0);
            return;
        }
        offset += extension_bytes(next_header, extension[EXTENSION_LENGTH_OFFSET]);
        next_header = extension[EXTENSION_NEXT_HEADER_OFFSET];
    }
    packet->extensions |= extension_bit(next_header);
    set_transport(packet, next_header, offset);
}

static enum packet_status parse_ipv6(struct packet *packet) {
    const uint8_t *ip = header_at(packet, 0, PACKET_IPV6_HEADER_BYTES);
    uint32_t offset = PACKET_IPV6_HEADER_BYTES;
    enum packet_status status;
    uint32_t payload_bytes;

    if (packet->original < PACKET_IPV6_HEADER_BYTES)
        return PACKET_IPV6_SHORT;
    if (!ip)
        return cut_headers(packet);

    payload_bytes = be16(ip + IPV6_PAYLOAD_LENGTH_OFFSET);
    if (payload_bytes == 0 && packet->original > PACKET_IPV6_HEADER_BYTES + PACKET_LENGTH_MAX)
        payload_bytes = packet->original - PACKET_IPV6_HEADER_BYTES; // a jumbogram or BIG TCP
    if (payload_bytes > packet->original - PACKET_IPV6_HEADER_BYTES)
        return PACKET_IPV6_PAYLOAD_LENGTH;
    packet->end = PACKET_IPV6_HEADER_BYTES + payload_bytes;
    packet->protocol = ip[IPV6_NEXT_HEADER_OFFSET];

    find_transport(packet, ip[IPV6_NEXT_HEADER_OFFSET]);
    status = walk_extensions(packet, &offset);
    if (status != PACKET_OK || packet->later_fragment || packet->protocol == IPPROTO_NONE)
        return status;
    return parse_l4(packet, offset);
}

enum packet_status packet_parse(const uint8_t *bytes, uint32_t captured, uint32_t original,
                                struct packet *packet) {
    *packet = (struct packet){
        .bytes = bytes,
        .captured = captured,
        .original = original > captured ? original : captured,
    };
    if (captured == 0)
        return packet->original == 0 ? PACKET_EMPTY : cut_headers(packet);
    packet->version = bytes[0] >> 4;
    if (packet->version == 4)
        return parse_ipv4(packet);
    if (packet->version == 6)
        return parse_ipv6(packet);
    packet->version = 0;
    return PACKET_VERSION;
}

uint32_t packet_address_bytes(const struct packet *packet) {
    return packet->version == 4 ? IPV4_ADDRESS_BYTES : IPV6_ADDRESS_BYTES;
}

const uint8_t *packet_addresses(const struct packet *packet) {
    if (packet->version == 4 && packet->captured >= PACKET_IPV4_HEADER_BYTES)
        return packet->bytes + IPV4_ADDRESSES_OFFSET;
    if (packet->version == 6 && packet->captured >= PACKET_IPV6_HEADER_BYTES)
        return packet->bytes + IPV6_ADDRESSES_OFFSET;
    return NULL;
}
