// SPDX-License-Identifier: GPL-2.0-or-later
// Serialized form of a connection in an upgrade.
//
// Format, in little-endian numbers (bits in parentheses):
// - words of its key (64 each: two for IPv4, five for IPv6)
// - list (8), flags (16), nanoseconds since it entered the list or was last used (64)
// - interfaces of client and server, number of bytes that passed from each end before the client's
//   names (32 each)
// - stream: base, decided, acked (32 each)
// - TCP: begun, server_begun, server_end, pending_base, and the source and sink interface of the
//   pending SYN (32 each)
// - UDP: version (32), keys (16, 12 and 16 bytes), next expected packet number (64), length of the
//   connection ID (8), connection ID (20 bytes, padded)
// - names: state, protocol, lengths of host, ALPN protocols and method (8 each), TLS version, DNS
//   type (16 each), then host, ALPN protocols and method
// - HTTP: next (64) and awaited (8) of the requests, for the current position and for the start of
//   the stream
// - number of stored pieces of the stream (8), start and end of each piece (16 each), bytes of the
//   pieces
#ifndef HANDOVER_RECORD_H
#define HANDOVER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    // Maximum size of a serialized connection with its whole stream, in bytes, and the room after
    // it that stream_gather requires.
    HANDOVER_RECORD_BYTES = 1024 + 2 * NAMES_HELLO_BYTES_MAX,
};

/// Order of the lists in which connections are sent; the receiver refuses another order. A receiver
/// with too little memory moves connections to another list. That list comes earlier in this order,
/// so all its connections have been read.
extern const enum connection_list handover_record_order[CONNECTION_LIST_COUNT];

/// Buffer of a record (serialized connection, address or numbers) that is being written.
struct handover_record {
    size_t length;
    uint8_t bytes[HANDOVER_RECORD_BYTES];
};

/// State of reading serialized connections or addresses.
struct handover_reading {
    const uint8_t *at;
    size_t left;
    bool cut; // true if a read requested more bytes than were left
    // List of the previous connection, as an index into handover_record_order, and its age.
    uint32_t list;
    uint64_t age_ns;
};

/// Starts to read serialized connections or addresses.
struct handover_reading handover_record_begin(const uint8_t *bytes, size_t length);

/// Appends the lowest `bytes` bytes of a number, in little-endian order.
void handover_record_append_number(struct handover_record *record, uint64_t number, uint32_t bytes);

/// Appends a connection.
void handover_record_append(struct handover_record *record, const struct connection *connection,
                            struct connection_pool *pool, uint64_t now_ns);

/// Removes a number of the given size in bytes from the front of the unread bytes, and returns it;
/// returns 0 if fewer bytes are left.
uint64_t handover_record_number(struct handover_reading *reading, uint32_t bytes);

/// Parses the next connection and adds it to the table. Returns NULL, or the name of the invalid
/// part; then the table may contain a part of the connection.
const char *handover_record_decode(struct handover_reading *reading,
                                   struct connections *connections, uint64_t now_ns);

#endif
