// SPDX-License-Identifier: GPL-2.0-or-later
// Whether packets have a connection state where the policy asks for it. The kernel tracks nothing
// until a rule of its own asks for connections: then a policy with `ct state established accept`
// drops every answer that this host gets.
#ifndef WORKER_TRACKED_H
#define WORKER_TRACKED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TRACKED_PACKETS_LEAST =
        10, // how many packets without a state, and none with one, are needed before it is said
};

enum tracked {
    TRACKED_UNKNOWN, // too few packets, or the policy does not ask
    TRACKED_SEEN,    // some had a state
    TRACKED_MISSING, // none had
};

/// What was seen so far. Zeroed it begins with the first look.
struct tracked_watch {
    uint32_t generation; // of the policy; 0 = none
    uint64_t decided;    // of all queues, when it was looked at this policy first
    uint64_t without;
    enum tracked tracked;
};

/// Reads the sums of all queues: packets answered, and those without a state, read in this order.
/// - generation: of the policy; another one begins anew.
/// - asks: whether it asks for the state.
/// - Returns what is known now.
enum tracked tracked_look(struct tracked_watch *watch, uint32_t generation, bool asks,
                          uint64_t decided, uint64_t without);

/// Its name in the answer to `status`. NULL = nothing is known.
const char *tracked_name(enum tracked tracked);

#endif
