// SPDX-License-Identifier: GPL-2.0-or-later
// The old firewall's side of an upgrade (handover.h). The main thread goes on with what it does
// until the new one says "commit"; it alone calls what is here.
#ifndef HANDOVER_GIVE_H
#define HANDOVER_GIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "handover/handover.h"
#include "handover/memory.h"
#include "handover/rules.h"
#include "queue/queue.h"
#include "state/state.h"

/// An upgrade that has begun: the new firewall prepares.
struct handover_giving {
    struct handover_channel channel;
    struct handover_rules rules;
    bool told; // whether all has been told that can be told before anything stops
    struct handover_memory states, sums; // room for what will be written
    bool connections;                    // the new one wants to know the connections of the workers
    bool learned;                        // and what sets have learnt
};

/// Begins to hand over to a new process. The policy must stay until handover_give_commit or
/// handover_give_end.
/// - client_fd: the connection on which it asked; taken if this succeeds.
/// - kind: its backend.
/// - Returns 0, or -errno with failure filled in and *giving NULL.
int handover_give_prepare(const struct state *state, int client_fd, enum queue_kind kind,
                          struct handover_giving **giving, struct failure *failure);

/// Descriptors to poll for reading; there is also something to do by handover_give_due_ns.
int handover_give_fd(const struct handover_giving *giving);

/// The time, of wait_clock, when handover_give_go_on is to be called at the latest.
uint64_t handover_give_due_ns(const struct handover_giving *giving);

/// Does a part of what there is to do before the new one can say "commit", or checks whether it
/// has.
/// - fds: ours, by enum handover_fd; -1 = none.
/// - ready: whether it has.
/// - Returns 0, or -errno with failure filled in: it is gone, late or no firewall.
int handover_give_go_on(const struct state *state, struct handover_giving *giving,
                        const int fds[HANDOVER_FD_COUNT], bool *ready, struct failure *failure);

/// Passes everything to the new process, which is ready, and frees what handover_give_prepare made.
/// - Returns whether it runs. Then the workers are stopped and their queues released, and this
///   process has to end without touching what it gave. Otherwise they run as before, and stderr and
///   COUNT_UPGRADES_FAILED tell why.
bool handover_give_commit(struct state *state, struct handover_giving *giving);

/// Says that this firewall stays, and why.
void handover_give_stay(const struct failure *failure);

/// Frees what handover_give_prepare made. NULL can be given as well.
void handover_give_end(struct handover_giving *giving);

#endif
