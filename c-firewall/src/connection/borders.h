// SPDX-License-Identifier: GPL-2.0-or-later
// Where the next message of DNS over TCP begins in what a server sends.
//
// Theory of operation: messages keep to no border of segments, and a client chooses where its
// server cuts them, by its window. So a border is known from the server's SYN-ACK on, and goes on
// from message to message; a segment's start is none. As of questions a hash is kept, in a table of
// a fixed size where the oldest makes room. A connection that has none teaches nothing.
#ifndef CONNECTION_BORDERS_H
#define CONNECTION_BORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/types.h"
#include "packet/packet.h"

enum {
    BORDERS_BUCKETS = 256, // of connections
    BORDERS_BUCKET_BORDERS = 8,
};

/// State of a connection.
struct border {
    uint64_t tag;
    uint64_t end_ns; // when it is over; 0 = there is none
    uint32_t client_interface;
    uint32_t server_interface;
    bool is_known; // the server has answered the client's SYN: next is known
    uint32_t next; // the sequence number of the message's first byte
};

/// The connections of a worker.
struct borders {
    struct siphash_key key;
    struct border buckets[BORDERS_BUCKETS][BORDERS_BUCKET_BORDERS];
};

/// Makes room for connections, of memory that is 0.
void borders_make(struct borders *borders);

/// Begins with a connection, by its client's SYN.
void borders_begin(struct borders *borders, const struct packet *packet,
                   const struct connection_input *input);

/// Notes where the next message of a server begins, by a packet of its own.
void borders_set(struct borders *borders, const struct packet *packet,
                 const struct connection_input *input, uint32_t next);

/// Sequence number of a server's next message. Returns false if unknown.
bool borders_next(struct borders *borders, const struct packet *packet,
                  const struct connection_input *input, uint32_t *next);

#endif
