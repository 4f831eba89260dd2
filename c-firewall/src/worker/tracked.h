// SPDX-License-Identifier: GPL-2.0-or-later
// Check that packets have a connection state (conntrack) if the policy reads the state. The kernel
// tracks connections only if a rule of the kernel requires tracking. Without tracking, a policy
// with `ct state established accept` drops every reply to this host.
#ifndef WORKER_TRACKED_H
#define WORKER_TRACKED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    // Number of packets of all workers without a connection state after which the state counts as
    // missing, if no packet had a state.
    TRACKED_PACKETS_LEAST = 10,
};

/// Result of the check whether the kernel provides the connection state (conntrack) of packets.
enum tracked {
    TRACKED_UNKNOWN, // too few packets were seen, or the policy does not read the connection state
    TRACKED_SEEN,    // at least one packet had a connection state
    TRACKED_MISSING, // none of at least TRACKED_PACKETS_LEAST packets had a connection state
};

/// State of the check whether packets have a connection state. Zeroes are the state before the
/// first call of tracked_look.
struct tracked_watch {
    uint32_t generation; // generation of the policy to which the check belongs; 0 means none
    // Number of answered packets of all queues when the check of this policy began.
    uint64_t decided;
    // Number of packets without a connection state, of all queues, when the check of this policy
    // began.
    uint64_t without;
    enum tracked tracked; // result of the last call of tracked_look
};

/// Updates the check with the current counters of all queues. Returns the check's result.
/// - generation: generation of the policy; a new generation restarts the check.
/// - asks: true if the policy reads the connection state.
/// - decided, without: numbers of answered packets and of packets without a connection state; the
///   caller reads them in this order.
enum tracked tracked_look(struct tracked_watch *watch, uint32_t generation, bool asks,
                          uint64_t decided, uint64_t without);

/// Returns the name of a result of the check in the reply to `status`; NULL for TRACKED_UNKNOWN.
const char *tracked_name(enum tracked tracked);

#endif
