// SPDX-License-Identifier: GPL-2.0-or-later
// Requests of an HTTP connection, one after another (RFC 9112, section 9.3).
//
// Theory of operation: each request is read like the first, and a packet is decided by each request
// that it completes. A packet that repeats bytes that the server has not acknowledged is decided
// again by all kept requests. Bodies between the requests pass unread; the header or the head of a
// chunk gives their length. Acknowledged bytes are dropped, so that the stream begins with the next
// request or chunk, which may be far ahead. Bytes that are not a request make the connection
// unreadable, unless the server has made the connection a tunnel from that point on: then nothing
// more is read. Requests are followed while the policy reads them. Afterwards the position in the
// requests is unknown, so the connection is unreadable for a later policy that reads them.
#ifndef CONNECTION_REQUESTS_H
#define CONNECTION_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// Returns true if the firewall reads the next bytes of a client as an HTTP request or a chunk.
/// Returns false for connections without known names of HTTP, for tunnels, and for connections
/// whose policy did not read all requests.
bool requests_go_on(const struct connection *connection);

/// Reads the first bytes of a stream of requests. The first request decides the current packet. If
/// the policy reads no requests, the later requests are lost.
struct followed requests_begin(struct connections *connections, uint32_t slot,
                               const struct segment *segment);

/// Records that the position of later requests is lost, if the policy does not read requests.
/// Returns true if the policy reads requests, and an earlier policy did not read all requests of
/// this connection.
bool requests_are_lost(struct connection *connection, const struct connection_input *input);

/// Reads the status of a server's first response, to detect that the connection becomes a tunnel.
void requests_hear(struct connection *connection, const struct segment *segment);

/// Moves the stream's start to the next request or chunk, by at most STEP_BYTES, if the server has
/// acknowledged the bytes that were parsed. Does nothing while bytes of a later request are stored
/// after a gap.
void requests_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads the bytes of a client and moves to the first request that decides the packet.
/// - offset: offset in the stream of the first byte of `data`.
/// - data: captured bytes of the packet from `offset` on.
/// - length: number of bytes of the packet from `offset` on, captured or not.
struct followed requests_follow(struct connections *connections, uint32_t slot, uint32_t offset,
                                const uint8_t *data, uint32_t captured, uint32_t length,
                                uint64_t now_ns);

/// Moves to the next HTTP request that decides the current packet, and stores the request's names
/// as those of the connection. If the request can't be read, or the packet has too many, makes the
/// names unreadable and returns true. Returns false if no complete request is left.
bool requests_next(struct connections *connections, uint64_t now_ns);

#endif
