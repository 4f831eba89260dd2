// SPDX-License-Identifier: GPL-2.0-or-later
// The connection of a packet, and what its client has shown so far.
#ifndef CONNECTION_FOLLOW_H
#define CONNECTION_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Makes room for connections; nothing allocates afterwards.
/// - Returns 0, or -ENOMEM with nothing to free.
int connection_make(struct connections *connections, const struct connection_settings *settings);
void connection_free(struct connections *connections);

/// Follows a packet, in the order of its queue. Those of both directions must
/// come.
struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input);

/// Goes on with a packet that was just followed, of DNS over TCP or HTTP, and is accepted by its
/// names so far: to those of the next query or request that it is judged by. Returns whether there
/// is one.
bool connection_next(struct connections *connections);

/// The names of a packet that was just followed, of kind FOLLOWED_NAMES.
const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed);

/// Policy data of a packet's connection; NULL if the packet belongs to none.
struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed);

/// Notes that a policy refused a packet for the names of its connection: as long as it is the
/// policy, all packets of the connection are denied. tells: its ends are to know, which those of
/// TCP can. Nothing is noted of a packet that stands alone.
void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation, bool tells);

/// Whether the ends of a packet's connection can be told that it is denied.
bool connection_can_reset(const struct connections *connections, const struct followed *followed);

/// Whether the ends of a denied packet's connection are told so.
bool connection_is_reset(const struct connections *connections, const struct followed *followed);

/// The sequence number that the end expects next which a packet of TCP was sent to and did not get.
/// A server has said itself what it expects: what only its client claims may never have come to it.
/// A client expects what its server sends. Returns whether it is known.
bool connection_expected(const struct connections *connections, const struct followed *followed,
                         const struct packet *packet, uint32_t *expected);

/// Whether the names of a packet's connection can never change any more, and the server has
/// acknowledged the bytes that decided them.
bool connection_is_settled(const struct connections *connections, const struct followed *followed);

/// Whether the packet that was followed last comes from a server of QUIC that has the whole hello
/// that decided: no packet of this end changes names any more. One of the client may: a datagram
/// that is several ones may hide the hello of another connection.
bool connection_is_answer(const struct connections *connections, const struct followed *followed);

/// How many are followed.
uint32_t connection_count(const struct connections *connections);

/// Counters since connection_make.
struct connection_counts connection_counts(const struct connections *connections);

#endif
