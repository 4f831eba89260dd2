// SPDX-License-Identifier: GPL-2.0-or-later
// Queries of a DNS connection over TCP, one after another (RFC 7766, section 6.2.1).
//
// Theory of operation: queries don't align with segments. So a packet is decided by every query of
// which it contains a byte, once that query is complete, also when the packet is repeated. A packet
// that fills a gap may complete queries of which it contains no byte. So after pieces have arrived
// before their predecessors, a packet is also decided by the complete queries after it. An
// incomplete query is undecided; it decides the packet that completes it.
#ifndef CONNECTION_QUERIES_H
#define CONNECTION_QUERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    // Maximum number of DNS queries or HTTP requests that decide a packet; a connection with more
    // of them in one packet is unreadable.
    QUERIES_MAX = 128,
};

/// Moves the stream's start after the queries if the server has acknowledged all of them and no
/// later bytes are stored. Otherwise, if many bytes are kept, moves it after the acknowledged
/// queries only.
void queries_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads the bytes of a DNS client and moves to the first query that decides the packet.
/// - offset: offset in the stream of the first byte of `data`.
/// - data: captured bytes of the packet from `offset` on.
/// - length: number of bytes of the packet from `offset` on, captured or not.
struct followed queries_follow(struct connections *connections, uint32_t slot, uint32_t offset,
                               const uint8_t *data, uint32_t captured, uint32_t length,
                               uint64_t now_ns);

/// Moves to the next DNS query that decides the current packet, and stores the query's names as
/// those of the connection. If the query can't be read, or the packet has too many, makes the names
/// unreadable and returns true. Returns false if no query is left.
bool queries_next(struct connections *connections, uint64_t now_ns);

#endif
