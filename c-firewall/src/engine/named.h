// SPDX-License-Identifier: GPL-2.0-or-later
// Names of a packet's connection for a decision: the names that its client has shown, and their
// numbers in the policy.
#ifndef ENGINE_NAMED_H
#define ENGINE_NAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/follow.h"
#include "engine/compiled.h"
#include "engine/types.h"

enum {
    // Number of counters of connections: opened; decided, by enum names_protocol; denied, evasions,
    // unreadable, evicted.
    NAMED_RESULT_COUNT = CONNECTION_PROTOCOL_COUNT + 5,
};

/// Reject with a TCP RST.
extern const struct policy_reject named_rst;

/// Names of a packet's connection for a decision: the result of following the packet, and the
/// numbers of the names in the policy.
struct named {
    struct followed followed;
    uint32_t host_number;
    uint32_t alpn_bits;
    bool is_new; // true if the policy has not decided by these names before
};

/// Follows a packet's connection and returns its names with their numbers in the policy.
/// - how->generation: generation of the policy.
struct named named_follow(struct connections *connections, const struct compiled *compiled,
                          const struct packet *packet, const struct connection_input *how);

/// Moves to the names of the next DNS query or HTTP request in a packet. The policy must have
/// accepted the current names. Returns true if there is a next query or request: then the policy
/// must decide again.
/// - generation: generation of the policy.
bool named_next(struct connections *connections, const struct compiled *compiled,
                uint64_t generation, struct named *named);

/// Adds the names of a packet's connection to the input of a decision, or the fact that the policy
/// has refused the connection.
/// - names: names that the client has sent.
void named_tell(const struct named *named, const struct names *names, struct decide_input *input);

/// Returns true if the policy refuses names that the packet has just shown: then it refuses the
/// connection.
bool named_refuses(const struct named *named, const struct decide_outcome *outcome);

/// Resets both ends of a refused TCP connection, if the rule that refused it has `reject` of any
/// kind: an ICMP error does not end an established connection (RFC 5461 section 3). The sender of
/// this packet and of each later one gets a RST.
/// - outcome: in/out: becomes a reject with a TCP RST, if the connection is reset.
/// - expected: out: sequence number of the RST.
/// - Returns true if a RST to the packet's destination is due, with its sequence number in
///   *expected.
bool named_reset(const struct connections *connections, const struct named *named,
                 const struct packet *packet, struct decide_outcome *outcome, uint32_t *expected);

/// Fills in the counters of connections, in the order given at NAMED_RESULT_COUNT, since
/// `connections` was created.
void named_results(const struct connections *connections, uint64_t results[NAMED_RESULT_COUNT]);

#endif
