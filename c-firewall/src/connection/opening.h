// SPDX-License-Identifier: GPL-2.0-or-later
// Opening of TCP connections, and replacement of a connection by a new connection between the same
// ends.
//
// Theory of operation: the first SYN identifies the client. The server's answer identifies the
// connection by the sequence numbers of both ends, because a client may reuse its own number. A SYN
// belongs to another connection if the first SYN was answered, or if its number differs from the
// first SYN's. It changes nothing before the server has answered it: a server that still has the
// old connection does not answer a SYN (RFC 9293, section 3.10.7.4). A server without state before
// the client's third segment (SYN cookies) may answer several SYNs; the number that the client
// acknowledges then shows which SYN it continues.
#ifndef CONNECTION_OPENING_H
#define CONNECTION_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/segment.h"
#include "connection/types.h"

/// Handles a SYN of a connection that is not followed, and begins to follow it. Returns the
/// connection's slot.
uint32_t opening_begin(struct connections *connections, const struct segment *segment);

/// Returns true if a segment of a denied connection may open another connection.
bool opening_restarts(const struct connection *connection, const struct segment *segment);

/// Handles a SYN between the ends of a followed connection. Returns false if the SYN repeats the
/// connection's first SYN, which the server has not answered yet. Otherwise it belongs to another
/// connection, which begins when the server answers the SYN; but a SYN from the server's end is
/// unreadable until the old connection is over for both ends.
/// - followed: out: result for the SYN, unless it is a repetition.
bool opening_begin_again(struct connections *connections, uint32_t slot,
                         const struct segment *segment, struct followed *followed);

/// Returns true if the server has all bytes that the names were read from, and its later bytes
/// can't change the names.
bool opening_is_finished(const struct connection *connection);

/// Handles a SYN with ACK, the answer to a SYN. An answer to the pending SYN replaces the
/// connection by the new one. The first answer to the first SYN confirms the connection; a
/// repetition changes nothing. A SYN with ACK from the client, or by another interface than the
/// server's, is unreadable. After any other answer it is uncertain which connection the server has:
/// the packet is unreadable, and the names become unreadable, too, unless they are finished
/// (opening_is_finished) and no SYN is pending. If both ends have sent a SYN (`crossed`), every SYN
/// with ACK of the server makes the names unreadable.
struct followed opening_answer(struct connections *connections, uint32_t slot,
                               const struct segment *segment);

/// Stores the sequence number after a server's segment in `server_end`, if the segment ends later
/// than all earlier segments. `server_end` stays at most 2^32 - 1 bytes after the server's first
/// byte. Returns false if the server has not answered the client's SYN, or if the segment does not
/// begin between the server's first byte and AHEAD_MAX bytes after its latest byte.
bool opening_hear(struct connection *connection, const struct segment *segment);

/// Returns true if a client's segment acknowledges bytes of the server in this connection, at least
/// its SYN.
bool opening_is_acknowledging(const struct connection *connection, const struct segment *segment);

#endif
