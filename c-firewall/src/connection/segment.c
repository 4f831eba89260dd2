// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/segment.h"

#include "connection/option.h"
#include "connection/table.h"

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

bool segment_of(const struct packet *packet, const struct connection_input *input,
                struct segment *segment) {
    const uint32_t start = packet->l4_offset;
    const uint32_t available = packet->end > start ? packet->end - start : 0;
    const uint8_t *header = packet->bytes + start;
    uint32_t header_bytes, copied;

    if (start > packet->captured || packet->captured - start < PACKET_TCP_HEADER_BYTES)
        return false;
    copied = packet->captured - start;
    header_bytes = (header[PACKET_TCP_LENGTH_OFFSET] >> 4) * 4U;
    if (header_bytes < PACKET_TCP_HEADER_BYTES || header_bytes > available)
        return false;
    *segment = (struct segment){
        .source_port = packet->source_port,
        .destination_port = packet->destination_port,
        .flags = header[PACKET_TCP_FLAGS_OFFSET],
        .is_multipath = (header[PACKET_TCP_FLAGS_OFFSET] & SEGMENT_SYN) &&
                        (copied < header_bytes ||
                         option_has(header + PACKET_TCP_HEADER_BYTES,
                                    header_bytes - PACKET_TCP_HEADER_BYTES, OPTION_MULTIPATH)),
        .sequence = be32(header + PACKET_TCP_SEQUENCE_OFFSET),
        .acknowledged = be32(header + PACKET_TCP_ACKNOWLEDGED_OFFSET),
        .data = header + min(header_bytes, copied),
        .captured = min(copied - min(header_bytes, copied), available - header_bytes),
        .length = available - header_bytes,
        .input = *input,
        .now_ns = input->now_ns,
    };
    segment->is_low = connection_table_key(packet, &segment->key);
    return true;
}

bool segment_sequence(const struct packet *packet, uint32_t *sequence) {
    const struct connection_input input = {0};
    struct segment segment;

    if (!segment_of(packet, &input, &segment))
        return false;
    *sequence = segment.sequence;
    return true;
}

bool segment_is_clients(const struct segment *segment, const struct connection *connection) {
    return segment->is_low == connection->client_low;
}
