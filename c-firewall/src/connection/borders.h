// SPDX-License-Identifier: GPL-2.0-or-later
// Borders of DNS messages in a server's TCP stream.
//
// Theory of operation: messages don't align with segments, and by its window a client influences
// where the server splits them. So the start of a segment does not count as a border: the server's
// SYN-ACK shows the first border, and each message the next one. A connection is stored as a hash,
// in a table of fixed size in which the oldest entry is replaced. Answers on a connection without
// an entry add no addresses to sets.
#ifndef CONNECTION_BORDERS_H
#define CONNECTION_BORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/types.h"
#include "packet/packet.h"

enum {
    BORDERS_BUCKETS = 256, // number of buckets in the table of DNS connections over TCP
    BORDERS_BUCKET_BORDERS = 8,
};

/// Entry of struct borders: a DNS connection over TCP, and the position in its server's stream at
/// which the next message begins.
struct border {
    uint64_t tag;
    uint64_t end_ns; // expiry time; 0 means that the entry is unused
    uint32_t client_interface;
    uint32_t server_interface;
    bool is_known; // true if the server has answered the client's SYN, so that `next` is known
    uint32_t next; // sequence number of the first byte of the server's next DNS message
};

/// Table of a worker's DNS connections over TCP.
struct borders {
    struct siphash_key key;
    struct border buckets[BORDERS_BUCKETS][BORDERS_BUCKET_BORDERS];
};

/// Makes an empty table in zeroed memory.
void borders_make(struct borders *borders);

/// Adds the connection that a client's SYN opens.
void borders_begin(struct borders *borders, const struct packet *packet,
                   const struct connection_input *input);

/// Stores the sequence number at which the server's next DNS message begins, if the table has the
/// packet's connection.
/// - packet: packet from the server.
void borders_set(struct borders *borders, const struct packet *packet,
                 const struct connection_input *input, uint32_t next);

/// Stores the sequence number at which the server's next message begins in *next. Returns false if
/// the number is unknown.
/// - next: out: the number; untouched on false.
bool borders_next(struct borders *borders, const struct packet *packet,
                  const struct connection_input *input, uint32_t *next);

#endif
