// SPDX-License-Identifier: GPL-2.0-or-later
// The connection of a packet, and what its client has shown so far.
#ifndef CONNECTION_FOLLOW_H
#define CONNECTION_FOLLOW_H

#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"

/// Makes room for connections; nothing allocates afterwards.
/// - Returns 0, or -ENOMEM with nothing to free.
int connection_make(struct connections *connections, const struct connection_settings *settings);
void connection_free(struct connections *connections);

/// Takes a packet in, in the order in which its queue gives them. Those of both directions must
/// come.
struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input);

/// The names of a packet that was just followed, of kind FOLLOWED_NAMES.
const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed);

/// What is kept of a packet's connection for the policy; NULL if the packet stands alone.
struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed);

/// Notes that a policy refused a packet for the names of its connection: as long as it is the
/// policy, all packets of the connection are denied. Nothing is noted of a packet that stands
/// alone.
void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation);

/// How many are followed.
uint32_t connection_count(const struct connections *connections);

/// What was counted since connection_make.
struct connection_counts connection_counts(const struct connections *connections);

#endif
