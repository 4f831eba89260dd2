// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/checksum.h"

#include <netinet/in.h>
#include <stddef.h>

enum {
    TCP_PLACE = 16, // offset of the checksum in a TCP header
    UDP_PLACE = 6,  // offset of the checksum in a UDP header
    UDP_LENGTH = 4, // offset of the length in a UDP header
};

/// Returns a sum that is equal, modulo 0xffff, to the sum of the big-endian 16-bit words; a final
/// odd byte is padded with 0.
static uint64_t sum(const uint8_t *bytes, uint32_t length) {
    uint64_t all = 0;
    uint32_t at = 0;

    for (; length - at >= 4; at += 4) {
        all += (uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 |
               (uint32_t)bytes[at + 2] << 8 | bytes[at + 3];
    }
    for (uint32_t shift = 24; at < length; at++, shift -= 8)
        all += (uint64_t)bytes[at] << shift;
    return all;
}

/// Returns the sum of all words that a packet's checksum covers, including the checksum itself.
/// - ends: source and destination address.
/// - bytes: the packet from its layer 4 header on.
static uint64_t total(const struct packet *packet, const uint8_t *ends, const uint8_t *bytes,
                      uint32_t length) {
    return (uint64_t)packet->protocol + length + sum(ends, 2 * packet_address_bytes(packet)) +
           sum(bytes, length);
}

/// Returns a 16-bit sum that is equal to a sum modulo 0xffff. It is 0 only if the sum is 0.
static uint16_t fold(uint64_t all) {
    while (all >> 16)
        all = (all & 0xffff) + (all >> 16);
    return (uint16_t)all;
}

bool checksum_is_right(const struct packet *packet, uint32_t size) {
    const uint8_t *ends = packet_addresses(packet);
    const uint8_t *bytes = packet->bytes + packet->l4_offset;

    if (!ends || packet->l4_offset > packet->captured ||
        size > packet->captured - packet->l4_offset || size > PACKET_LENGTH_MAX)
        return true;
    if (packet->protocol == IPPROTO_UDP && bytes[UDP_PLACE] == 0 && bytes[UDP_PLACE + 1] == 0)
        return true;
    return fold(total(packet, ends, bytes, size)) == 0xffff;
}

/// Stores the number of bytes that a packet's checksum covers in *size: for TCP those up to the
/// packet's end, for UDP the length in the UDP header. Returns false if the packet was cut, or if
/// the UDP length goes beyond the packet's end.
static bool covered(const struct packet *packet, uint32_t *size) {
    const uint8_t *header = packet->bytes + packet->l4_offset;
    uint32_t available;

    if (packet->end < packet->l4_offset || packet->end > packet->captured)
        return false;
    available = packet->end - packet->l4_offset;
    *size = available;
    if (packet->protocol == IPPROTO_UDP && available >= UDP_LENGTH + 2)
        *size = (uint32_t)(header[UDP_LENGTH] << 8 | header[UDP_LENGTH + 1]);
    return *size <= available;
}

bool checksum_correct(const struct packet *packet, uint32_t *place, uint16_t *checksum) {
    const bool is_udp = packet->protocol == IPPROTO_UDP;
    const uint32_t within = is_udp ? UDP_PLACE : TCP_PLACE;
    const uint8_t *ends = packet_addresses(packet);
    const uint8_t *bytes = packet->bytes + packet->l4_offset;
    uint16_t present, others;
    uint32_t size;

    if (!ends || !covered(packet, &size) || size < within + 2)
        return false;
    present = (uint16_t)(bytes[within] << 8 | bytes[within + 1]);
    *place = packet->l4_offset + within;
    others = fold(total(packet, ends, bytes, size) + (uint16_t)~present);
    *checksum = is_udp && others == 0xffff ? others : (uint16_t)~others;
    if (is_udp && present == 0)
        *checksum = 0;
    return true;
}
