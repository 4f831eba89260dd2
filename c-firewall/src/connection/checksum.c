// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/checksum.h"

#include <netinet/in.h>
#include <stddef.h>

enum {
    UDP_PLACE = 6, // offset of the checksum in a UDP header
};

/// Returns a sum that is equal, modulo 0xffff, to the sum of the big-endian 16-bit words; a final
/// odd byte is padded with 0.
static uint64_t sum(const uint8_t *bytes, uint32_t length) {
    uint64_t total = 0;
    uint32_t at = 0;

    for (; length - at >= 4; at += 4) {
        total += (uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 |
                 (uint32_t)bytes[at + 2] << 8 | bytes[at + 3];
    }
    for (uint32_t shift = 24; at < length; at++, shift -= 8)
        total += (uint64_t)bytes[at] << shift;
    return total;
}

bool checksum_is_right(const struct packet *packet, uint32_t size) {
    const uint8_t *ends = packet_addresses(packet);
    const uint8_t *bytes = packet->bytes + packet->l4_offset;
    uint64_t total;

    if (!ends || packet->l4_offset > packet->captured ||
        size > packet->captured - packet->l4_offset || size > PACKET_LENGTH_MAX)
        return true;
    if (packet->protocol == IPPROTO_UDP && bytes[UDP_PLACE] == 0 && bytes[UDP_PLACE + 1] == 0)
        return true;
    total = (uint64_t)packet->protocol + size + sum(ends, 2 * packet_address_bytes(packet)) +
            sum(bytes, size);
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return total == 0xffff;
}
