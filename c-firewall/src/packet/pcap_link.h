// SPDX-License-Identifier: GPL-2.0-or-later
// From a captured frame to the IP packet in it. Pure.
// Link types: tcpdump.org/linktypes.html.
#ifndef PACKET_PCAP_LINK_H
#define PACKET_PCAP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Link types that are understood.
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

/// Whether a link type is understood.
bool pcap_link_is_known(uint16_t link);

/// An IP packet of a capture. bytes is borrowed from the frame.
struct pcap_packet {
    uint64_t number;      // of its frame, from 1
    uint64_t time_ns;     // since 1970
    const uint8_t *bytes; // from the IP header on
    uint32_t captured;
    uint32_t original; // bytes that it had
    uint8_t version;   // of IP, as the frame says: 4, 6; 0 = it does not
    // Text after PCAP_COMMENT_BEGIN in the first of its frame's comments with that start; NULL =
    // none.
    const uint8_t *comment;
    size_t comment_bytes;
};

/// Finds the IP packet in a frame.
/// - bytes: captured bytes of a frame that had original bytes.
/// - On true: packet->bytes, captured, original and version; what stands behind the length that the
/// IP
///   header says is left off.
/// - Returns false if it is not IP, or the link type is not understood.
bool pcap_link_find_ip(uint16_t link, const uint8_t *bytes, uint32_t captured, uint32_t original,
                       struct pcap_packet *packet);

#endif
