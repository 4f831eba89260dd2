// SPDX-License-Identifier: GPL-2.0-or-later
// Borders of DNS messages in a server's TCP stream.
//
// Theory of operation: messages don't align with segments, and a client influences by its window
// where the server splits them. So a border is known from the server's SYN-ACK on, and advances
// from message to message; the start of a segment is not a border. Like for queries, a hash is
// stored in a table of fixed size, in which the oldest entry is replaced. A connection without an
// entry teaches no addresses.
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
    uint64_t end_ns; // expiry time; 0 means that the entry is unused
    uint32_t client_interface;
    uint32_t server_interface;
    bool is_known; // true if the server has answered the client's SYN, so that `next` is known
    uint32_t next; // sequence number of the next message's first byte
};

/// The connections of a worker.
struct borders {
    struct siphash_key key;
    struct border buckets[BORDERS_BUCKETS][BORDERS_BUCKET_BORDERS];
};

/// Makes an empty table in zeroed memory.
void borders_make(struct borders *borders);

/// Adds a connection, by its client's SYN.
void borders_begin(struct borders *borders, const struct packet *packet,
                   const struct connection_input *input);

/// Stores the start of a server's next message, after one of the server's packets.
void borders_set(struct borders *borders, const struct packet *packet,
                 const struct connection_input *input, uint32_t next);

/// Returns the sequence number of a server's next message in *next. Returns false if it is unknown.
bool borders_next(struct borders *borders, const struct packet *packet,
                  const struct connection_input *input, uint32_t *next);

#endif
