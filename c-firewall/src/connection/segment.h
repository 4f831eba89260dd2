// SPDX-License-Identifier: GPL-2.0-or-later
// TCP segments (RFC 9293, section 3.1), parsed for connections.
#ifndef CONNECTION_SEGMENT_H
#define CONNECTION_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

enum {
    SEGMENT_FIN = 0x01,
    SEGMENT_SYN = 0x02,
    SEGMENT_RST = 0x04,
    SEGMENT_ACK = 0x10,
    SEGMENT_URG = 0x20,
};

/// Parsed TCP segment.
struct segment {
    struct connection_key key;
    uint64_t hash; // hash of the key in the table; set by connection_tcp_follow
    bool is_low;   // true if the segment comes from the lower end (by address and port)
    uint16_t source_port;
    uint16_t destination_port;
    uint8_t flags;
    // True for a SYN with the option of Multipath TCP, or whose options are unknown.
    bool is_multipath;
    uint32_t sequence;
    uint32_t acknowledged;
    const uint8_t *data;
    uint32_t captured; // length of the copied part of the data
    uint32_t length;   // length of the segment's data in bytes, copied or not
    struct connection_input input;
    uint64_t now_ns;
};

/// Parses a packet's TCP header. Returns false if the header was not copied or is malformed.
bool segment_of(const struct packet *packet, const struct connection_input *input,
                struct segment *segment);

/// Stores the sequence number of a TCP packet in *sequence. Returns false if its header was not
/// copied or is malformed.
/// - sequence: out: the number; untouched on false.
bool segment_sequence(const struct packet *packet, uint32_t *sequence);

/// Returns true if a segment comes from the client of its connection.
bool segment_is_clients(const struct segment *segment, const struct connection *connection);

#endif
