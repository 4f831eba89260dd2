// SPDX-License-Identifier: GPL-2.0-or-later
// Connection of a packet, and the names that its client has sent so far.
#ifndef CONNECTION_FOLLOW_H
#define CONNECTION_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Allocates all memory for connections; nothing allocates afterwards.
/// - Returns 0, or -ENOMEM with nothing to free.
int connection_make(struct connections *connections, const struct connection_settings *settings);
void connection_free(struct connections *connections);

/// Follows a packet. Packets of both directions must be passed, in the order of the queue.
struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input);

/// Moves to the next DNS query over TCP or HTTP request that decides the packet followed last, if
/// the previous one was accepted. Returns true if there is one.
bool connection_next(struct connections *connections);

/// Returns the names of the packet followed last, if its kind is FOLLOWED_NAMES.
const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed);

/// Returns the policy data of a packet's connection; NULL if the packet has no connection.
struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed);

/// Records that a policy refused a packet for the names of its connection: while that policy is in
/// use, all packets of the connection are denied. tells: its ends are notified if it is TCP. A
/// packet without a connection is ignored.
void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation, bool tells);

/// Returns true if the ends of a packet's connection can be notified that it is denied.
bool connection_can_reset(const struct connections *connections, const struct followed *followed);

/// Returns true if the ends of a denied packet's connection are notified.
bool connection_is_reset(const struct connections *connections, const struct followed *followed);

/// Returns the sequence number that the receiver of a dropped TCP packet expects next, in
/// *expected. For the server it is the number that the server itself has acknowledged, since it may
/// never have received the client's latest bytes. For the client it follows from the server's
/// bytes. Returns false if it is unknown.
bool connection_expected(const struct connections *connections, const struct followed *followed,
                         const struct packet *packet, uint32_t *expected);

/// Records that the kernel refused the TCP connection of a RST, which it sent to one of the ends:
/// the connection is denied like one that a policy refused. Returns the sequence number that the
/// other end, the RST's source, expects next, in *expected. For the client it is the number behind
/// the server's latest byte. Returns false if it is unknown.
bool connection_refuse(struct connections *connections, const struct packet *packet,
                       uint64_t generation, uint32_t *expected);

/// Returns true if the names of a packet's connection are final, and the server has acknowledged
/// the bytes that they were read from.
bool connection_is_settled(const struct connections *connections, const struct followed *followed);

/// Returns true if the packet followed last comes from a QUIC server that has the complete
/// ClientHello of the names: packets of the server then no longer change names. Packets of the
/// client may: one packet with several datagrams can hide the ClientHello of another connection.
bool connection_is_answer(const struct connections *connections, const struct followed *followed);

/// Returns the number of connections that are followed.
uint32_t connection_count(const struct connections *connections);

/// Returns the counters since connection_make.
struct connection_counts connection_counts(const struct connections *connections);

#endif
