// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/bound.h"

#include <netinet/in.h>

#include "connection/lifetime.h"
#include "connection/table.h"

enum {
    // Offset of the byte in a TCP header whose upper half is the header's length in words of 4
    // bytes.
    OFFSET = 12,
};

/// Returns the length of a packet's data in bytes. If the length of the TCP header was not copied,
/// the minimum is assumed.
static uint32_t data_bytes(const struct packet *packet) {
    const uint32_t bytes = packet->end > packet->l4_offset ? packet->end - packet->l4_offset : 0;
    uint32_t header = PACKET_UDP_HEADER_BYTES;

    if (packet->protocol == IPPROTO_TCP)
        header = packet->captured > packet->l4_offset + OFFSET
                     ? (packet->bytes[packet->l4_offset + OFFSET] >> 4) * 4U
                     : PACKET_TCP_HEADER_BYTES;
    return bytes > header ? bytes - header : 0;
}

struct followed bound_pass(struct connections *connections, const struct packet *packet,
                           struct followed followed) {
    struct connection *connection = connection_table_at(&connections->table, followed.slot);
    uint32_t *passed, bytes;

    if (followed.kind != FOLLOWED_NAMES || followed.slot == CONNECTION_SLOT_NONE)
        return followed;
    if (connection->names.state != NAMES_UNDECIDED) {
        connection->client_passed = 0;
        connection->server_passed = 0;
        return followed;
    }
    passed = connections->is_low == connection->client_low ? &connection->client_passed
                                                           : &connection->server_passed;
    bytes = data_bytes(packet);
    *passed = bytes > UINT32_MAX - *passed ? UINT32_MAX : *passed + bytes;
    if (*passed <= connections->settings.undecided_bytes)
        return followed;
    return lifetime_make_unreadable(connections, followed.slot, CONNECTION_BOUND,
                                    connections->now_ns);
}
