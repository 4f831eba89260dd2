// SPDX-License-Identifier: GPL-2.0-or-later
// The names of a packet's connection, for deciding: what its client has shown, and what the policy
// makes of it.
#ifndef ENGINE_NAMED_H
#define ENGINE_NAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/follow.h"
#include "engine/compiled.h"
#include "engine/types.h"

enum {
    // Counters of connections: opened; decided, by enum names_protocol; denied, evasions,
    // unreadable, evicted.
    NAMED_RESULT_COUNT = CONNECTION_PROTOCOL_COUNT + 5,
};

/// A RST.
extern const struct policy_reject named_rst;

/// Connection data that a decision reads.
struct named {
    struct followed followed;
    uint32_t host_number;
    uint32_t alpn_bits;
    bool is_new; // the policy has not been asked about these names before
};

/// Adds a packet to its connection and returns the connection's names as the policy numbers them.
/// how->generation: of the policy.
struct named named_follow(struct connections *connections, const struct compiled *compiled,
                          const struct packet *packet, const struct connection_input *how);

/// Goes on with a packet that the policy accepts by its names so far, to those of the next query of
/// DNS in it. Returns whether there is one: then the policy is asked again.
/// - generation: of the policy.
bool named_next(struct connections *connections, const struct compiled *compiled,
                uint64_t generation, struct named *named);

/// Fills in the names of a packet for the policy. names: those that its client has sent.
void named_tell(const struct named *named, const struct names *names, struct decide_input *input);

/// Whether the policy refuses the names that a connection's packet has just shown: then it refuses
/// the connection.
bool named_refuses(const struct named *named, const struct decide_outcome *outcome);

/// Has the ends of a refused connection of TCP reset, if its rule has `reject` of any kind: an ICMP
/// error ends no connection that stands (RFC 5461 section 3). Who sends a packet gets a RST, then
/// and for each one later.
/// - Returns whether a RST is due to the end that the packet was sent to, with its sequence number.
bool named_reset(const struct connections *connections, const struct named *named,
                 const struct packet *packet, struct decide_outcome *outcome, uint32_t *expected);

/// Counters of connections since their creation.
void named_results(const struct connections *connections, uint64_t results[NAMED_RESULT_COUNT]);

#endif
