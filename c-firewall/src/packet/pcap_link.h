// SPDX-License-Identifier: GPL-2.0-or-later
// Search for the IP packet in a captured frame, without side effects. Link types:
// tcpdump.org/linktypes.html.
#ifndef PACKET_PCAP_LINK_H
#define PACKET_PCAP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Supported link types.
enum pcap_link {
    PCAP_LINK_NULL = 0,
    PCAP_LINK_ETHERNET = 1,
    PCAP_LINK_RAW_BSD = 12,
    PCAP_LINK_RAW_OPENBSD = 14,
    PCAP_LINK_RAW = 101,
    PCAP_LINK_SLL = 113,
    PCAP_LINK_IPV4 = 228,
    PCAP_LINK_IPV6 = 229,
    PCAP_LINK_SLL2 = 276,
};

/// Returns true if a link type is supported.
bool pcap_link_is_known(uint16_t link);

/// IP packet of a capture. bytes points into the captured frame.
struct pcap_packet {
    uint64_t number;      // number of the packet's frame in the capture, from 1
    uint64_t time_ns;     // time of the packet's frame, in nanoseconds since 1970
    const uint8_t *bytes; // captured bytes from the IP header on
    uint32_t captured;
    uint32_t original; // length in bytes of the complete IP packet, without link header and padding
    uint8_t version;   // IP version that the frame's link layer states: 4 or 6; 0 = not stated
    // Text after PCAP_COMMENT_BEGIN in the frame's first comment that begins with it; NULL = none.
    const uint8_t *comment;
    size_t comment_bytes;
};

/// Finds the IP packet in a frame.
/// - bytes: captured bytes of a frame of original bytes.
/// - packet: out: only bytes, captured, original and version are set. The bytes after the packet's
///   length in the IP header are left out.
/// - Returns false if the link layer states no IP packet, the link header is cut, or the link type
///   is not supported. The IP header is not checked.
bool pcap_link_find_ip(uint16_t link, const uint8_t *bytes, uint32_t captured, uint32_t original,
                       struct pcap_packet *packet);

#endif
