// SPDX-License-Identifier: GPL-2.0-or-later
// How a connection of TCP opens, and how another one takes its place between the same ends.
//
// Theory of operation: the first SYN says who the client is, and the server's answer to it which
// connection this is: both ends' numbers, not the client's alone, which a client may choose again.
// A SYN is that of another connection if the first one was answered or if it has another number. It
// changes nothing before the server has answered it: a server that still has the old connection
// answers no SYN (RFC 9293, section 3.10.7.4). One that keeps no state before its client's third
// segment (SYN cookies) may answer several; there the numbers that a client acknowledges tell which
// of them it goes on with.
#ifndef CONNECTION_OPENING_H
#define CONNECTION_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// A SYN of a connection that is not followed. Returns the connection's slot.
uint32_t opening_begin(struct connections *connections, const struct segment *segment);

/// Whether a segment of a connection that is denied may open another one.
bool opening_restarts(const struct connection *connection, const struct segment *segment);

/// A SYN of a connection that is followed: its first one again, or that of another connection,
/// which is none before the server has answered it. Returns false for the first one again.
bool opening_begin_again(struct connections *connections, uint32_t slot,
                         const struct segment *segment, struct followed *followed);

/// Whether the server has all of what was decided on, and nothing that it has yet to say can change
/// that.
bool opening_is_finished(const struct connection *connection);

/// A server's answer to a SYN. One that answers a SYN that nobody sent, while the server may still
/// have our connection, makes it unknown which one it has.
struct followed opening_answer(struct connections *connections, uint32_t slot,
                               const struct segment *segment);

/// Notes how far a server's bytes go. Returns whether a segment of its can be one of this
/// connection.
bool opening_hear(struct connection *connection, const struct segment *segment);

/// Whether a client's segment acknowledges what the server has said in this connection: its SYN at
/// least.
bool opening_is_acknowledging(const struct connection *connection, const struct segment *segment);

#endif
