// SPDX-License-Identifier: GPL-2.0-or-later
// What a worker tells the policy of a packet, and what it does with the outcome besides the
// verdict: the answers of `reject`, and counting.
#ifndef ASK_H
#define ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "decide.h"
#include "interface.h"
#include "load.h"
#include "options.h"
#include "queue.h"
#include "stats.h"

/// One worker's.
struct ask {
    struct loaded *loaded; // which all workers share
    struct decide_settings decide;
    struct requirement requirement; // of the policy; zeroed without one
    struct flow_counters counters;  // of the policy
    struct interfaces interfaces;   // known by name, if the policy uses names
    bool ct_state_by_mark;          // --conntrack mark
    uint64_t now_ns;                // when the batch at hand was received
};

/// loaded lives longer. Returns 0 or -ENOMEM.
int ask_init(struct ask *ask, const struct options *options, struct loaded *loaded);

/// Zeroed it can be given as well.
void ask_free(struct ask *ask);

/// Whether there is a policy to ask.
bool ask_has_policy(const struct ask *ask);

/// Lets the policy decide, sends the answer of a reject, and counts what came of it.
void ask_policy(struct ask *ask, struct stats *stats, const struct queue_packet *packet,
                const struct packet *parsed, enum packet_status status,
                struct decide_outcome *outcome);

#endif
