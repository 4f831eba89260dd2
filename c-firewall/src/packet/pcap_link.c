// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/pcap_link.h"

enum {
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_IPV6 = 0x86dd,
    ETHERNET_BYTES = 14,
    SLL_BYTES = 16,
    SLL2_BYTES = 20,
    NULL_BYTES = 4,
    VLAN_BYTES = 4,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
};

static uint16_t be16(const uint8_t *bytes) { return (uint16_t)(bytes[0] << 8 | bytes[1]); }

bool pcap_link_is_known(uint16_t link) {
    switch (link) {
    case PCAP_LINK_NULL:
    case PCAP_LINK_ETHERNET:
    case PCAP_LINK_RAW_BSD:
    case PCAP_LINK_RAW_OPENBSD:
    case PCAP_LINK_RAW:
    case PCAP_LINK_SLL:
    case PCAP_LINK_IPV4:
    case PCAP_LINK_IPV6:
    case PCAP_LINK_SLL2:
        return true;
    default:
        return false;
    }
}

/// Returns the IP version for an address family of BSD or Linux, a 32-bit value in either byte
/// order; 0 = it is not IP.
static uint8_t version_of_family(const uint8_t *bytes) {
    const uint8_t low = bytes[0] != 0 ? bytes[0] : bytes[3];

    if (bytes[1] != 0 || bytes[2] != 0 || (bytes[0] != 0 && bytes[3] != 0))
        return 0;
    if (low == 2)
        return 4;
    return low == 10 || low == 24 || low == 28 || low == 30 ? 6 : 0;
}

static bool is_vlan(uint16_t ethertype) {
    return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

/// Finds the IP header after a link header and the VLAN tags behind it. Returns false if the
/// ethertype after the tags is not that of IP or was not captured.
/// - ethertype: ethertype in the link header.
/// - offset: in: offset of the first byte after the link header; out: offset of the IP header.
/// - version: out: IP version, 4 or 6.
static bool find_behind_ethertype(const uint8_t *bytes, uint32_t captured, uint16_t ethertype,
                                  uint32_t *offset, uint8_t *version) {
    while (is_vlan(ethertype)) {
        if (captured - *offset < VLAN_BYTES)
            return false;
        ethertype = be16(bytes + *offset + 2);
        *offset += VLAN_BYTES;
    }
    *version = ethertype == ETHERTYPE_IPV4 ? 4 : 6;
    return ethertype == ETHERTYPE_IPV4 || ethertype == ETHERTYPE_IPV6;
}

/// Finds the IP header in a frame. Returns false if the link layer states no IP packet, the link
/// header is cut, or the link type is not supported.
/// - offset: out: offset of the IP header.
/// - version: out: IP version that the link layer states, 4 or 6; 0 = not stated.
static bool find_offset(uint16_t link, const uint8_t *bytes, uint32_t captured, uint32_t *offset,
                        uint8_t *version) {
    *version = 0;
    switch (link) {
    case PCAP_LINK_RAW_BSD:
    case PCAP_LINK_RAW_OPENBSD:
    case PCAP_LINK_RAW:
        *offset = 0;
        return true;
    case PCAP_LINK_IPV4:
    case PCAP_LINK_IPV6:
        *offset = 0;
        *version = link == PCAP_LINK_IPV4 ? 4 : 6;
        return true;
    case PCAP_LINK_NULL:
        *offset = NULL_BYTES;
        *version = captured >= NULL_BYTES ? version_of_family(bytes) : 0;
        return *version != 0;
    case PCAP_LINK_ETHERNET:
        *offset = ETHERNET_BYTES;
        return captured >= ETHERNET_BYTES &&
               find_behind_ethertype(bytes, captured, be16(bytes + 12), offset, version);
    case PCAP_LINK_SLL:
        *offset = SLL_BYTES;
        return captured >= SLL_BYTES &&
               find_behind_ethertype(bytes, captured, be16(bytes + 14), offset, version);
    case PCAP_LINK_SLL2:
        *offset = SLL2_BYTES;
        return captured >= SLL2_BYTES &&
               find_behind_ethertype(bytes, captured, be16(bytes), offset, version);
    default:
        return false;
    }
}

/// Returns the packet's length as its IP header states it, at most packet->original; returns
/// packet->original if no header states a length. Ethernet pads short packets, and the kernel
/// removes the padding (ip_rcv_core, ip6_rcv_core).
static uint32_t claimed_bytes(const struct pcap_packet *packet) {
    const uint8_t *bytes = packet->bytes;
    uint32_t claimed = packet->original;

    if (packet->captured >= IPV4_BYTES && bytes[0] >> 4 == 4 && be16(bytes + 2) >= IPV4_BYTES)
        claimed = be16(bytes + 2);
    if (packet->captured >= IPV6_BYTES && bytes[0] >> 4 == 6 && be16(bytes + 4) > 0)
        claimed = IPV6_BYTES + be16(bytes + 4);
    return claimed < packet->original ? claimed : packet->original;
}

bool pcap_link_find_ip(uint16_t link, const uint8_t *bytes, uint32_t captured, uint32_t original,
                       struct pcap_packet *packet) {
    uint32_t offset = 0;

    if (!find_offset(link, bytes, captured, &offset, &packet->version))
        return false;
    if (original < captured)
        original = captured;
    packet->bytes = bytes + offset;
    packet->captured = captured - offset;
    packet->original = original - offset;
    packet->original = claimed_bytes(packet);
    if (packet->captured > packet->original)
        packet->captured = packet->original;
    return true;
}
