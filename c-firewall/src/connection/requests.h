// SPDX-License-Identifier: GPL-2.0-or-later
// The requests of a connection of HTTP, one after the other (RFC 9112, section 9.3).
//
// Theory of operation: each request is read as the first one is, and a packet is judged by each
// request that it completes. What comes again, before the server has it, is judged again by all
// that is kept. Between requests stand bodies, whose length the header or the head of a chunk
// tells: their bytes pass unread. What the server has acknowledged is dropped, so that the stream
// begins with the next request or chunk, which may be far ahead. What is no request is unreadable,
// unless the server has said that the connection is a tunnel from there on: no more is read then.
// Requests are followed while the policy asks for them. Which one a connection is at isn't known
// afterwards, so a later policy that asks can't read it.
#ifndef CONNECTION_REQUESTS_H
#define CONNECTION_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// Whether more requests may come on a connection, which are read.
bool requests_go_on(const struct connection *connection);

/// Reads what a stream of requests begins with. The packet at hand is judged by the first one.
struct followed requests_begin(struct connections *connections, uint32_t slot,
                               const struct segment *segment);

/// Notes what the policy asks for. Returns whether requests of a connection were lost that it asks
/// for.
bool requests_are_lost(struct connection *connection, const struct connection_input *input);

/// Reads a server's bytes: whether the connection is a tunnel from here on.
void requests_hear(struct connection *connection, const struct segment *segment);

/// Moves the stream's start to the next byte, if the server has acknowledged the bytes before it.
void requests_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns);

/// Reads the bytes of a client and moves to the first request of the packet's decision.
/// - data: from an offset of the stream on, as many bytes as were captured; it has length bytes.
struct followed requests_take(struct connections *connections, uint32_t slot, uint32_t offset,
                              const uint8_t *data, uint32_t captured, uint32_t length,
                              uint64_t now_ns);

/// Goes to the next request that the packet at hand is judged by: the names of its connection are
/// those of this request then. Returns whether there is one.
bool requests_next(struct connections *connections, uint64_t now_ns);

#endif
