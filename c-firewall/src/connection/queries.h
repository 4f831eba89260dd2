// SPDX-License-Identifier: GPL-2.0-or-later
// The queries of a connection of DNS over TCP, one after the other (RFC 7766, section 6.2.1).
//
// Theory of operation: queries have no borders that segments keep to. So a packet is judged by
// every query of which it has a byte, as soon as that query is whole, each time that the packet
// comes by. A packet that fills a gap makes queries whole of which it has nothing; once pieces have
// come before what stands before them, packets are judged by what stands behind them, too. What is
// not whole is undecided: the packet that completes it is judged by it.
#ifndef CONNECTION_QUERIES_H
#define CONNECTION_QUERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    QUERIES_MAX = 128, // that a packet is judged by; a connection with more in one is unreadable
};

/// Moves the stream's start after queries that the server has acknowledged: after all of them or,
/// if much is kept, behind those that it has acknowledged.
void queries_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads the bytes of a DNS client and moves to the first query of the packet's decision.
/// - data: from an offset of the stream on, as many bytes as were captured; it has length bytes.
struct followed queries_take(struct connections *connections, uint32_t slot, uint32_t offset,
                             const uint8_t *data, uint32_t captured, uint32_t length,
                             uint64_t now_ns);

/// Goes to the next query that the packet at hand is judged by: the names of its connection are
/// those of this query then. Returns whether there is one.
bool queries_next(struct connections *connections, uint64_t now_ns);

#endif
