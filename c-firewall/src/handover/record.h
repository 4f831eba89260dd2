// SPDX-License-Identifier: GPL-2.0-or-later
// One connection as it is handed over.
//
// Form, in little-endian numbers: the words of its key (64 bits each: two for IPv4, five for IPv6);
// its list (8), its flags (16), how many nanoseconds ago it came there or was used last (64). The
// interfaces of client and server, and what each has sent undecided (32 each). Of its stream: base,
// decided, acked (32 each). Of TCP: begun, server_begun, server_end, pending_base, and with these
// the interfaces of client and server (32 each); of UDP: the version (32), the keys (16, 12 and 16
// bytes), the number that is expected next (64), the bytes of the connection id (8) and 20 bytes
// for it. Of its names: state, protocol, the bytes of host, protocols and method (8 each), version,
// type (16 each), then host, protocols and method. Of its requests, if it is of HTTP: next (64) and
// awaited (8), of now and of where the stream begins. Last the number of pieces that are kept of
// its stream (8), where each begins and ends (16 each), and their bytes.
#ifndef HANDOVER_RECORD_H
#define HANDOVER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    // Bytes of a connection with its whole stream, and the room after it that stream_gather
    // requires.
    HANDOVER_RECORD_BYTES = 1024 + 2 * NAMES_HELLO_BYTES_MAX,
};

/// The lists in the order in which they come: when a connection of one changes to another for want
/// of memory, all of that one are there.
extern const enum connection_list handover_record_order[CONNECTION_LIST_COUNT];

/// Writer.
struct handover_record {
    size_t length;
    uint8_t bytes[HANDOVER_RECORD_BYTES];
};

/// State of a reader.
struct handover_reading {
    const uint8_t *at;
    size_t left;
    bool cut; // more was asked for than there was
    // The list of the connection before, by its place in the order, and its age.
    uint32_t list;
    uint64_t age_ns;
};

/// Begins to read.
struct handover_reading handover_record_begin(const uint8_t *bytes, size_t length);

/// Appends a number of so many bytes.
void handover_record_put_number(struct handover_record *record, uint64_t number, uint32_t bytes);

/// Appends a connection.
void handover_record_put(struct handover_record *record, const struct connection *connection,
                         struct connection_pool *pool, uint64_t now_ns);

/// Removes a number of the given size (bytes) from the front; 0 if there are not as many.
uint64_t handover_record_number(struct handover_reading *reading, uint32_t bytes);

/// Parses the connection at the front, and resumes it. Returns NULL, or the part that is not as
/// it should be; then a part of it may be there.
const char *handover_record_take(struct handover_reading *reading, struct connections *connections,
                                 uint64_t now_ns);

#endif
