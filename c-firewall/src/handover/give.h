// SPDX-License-Identifier: GPL-2.0-or-later
// The old firewall's side of an upgrade (handover.h). Only the main thread calls these functions;
// until the new firewall sends "commit", this thread does its other work in between.
#ifndef HANDOVER_GIVE_H
#define HANDOVER_GIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "handover/handover.h"
#include "handover/memory.h"
#include "handover/rules.h"
#include "queue/queue.h"
#include "state/state.h"

/// State of an upgrade in the old firewall, from the request to the end of the transfer.
struct handover_giving {
    struct handover_channel channel;
    char *const *values; // values of --control and --events with absolute paths
    struct handover_rules rules;
    // True if the state, the descriptors and the rules were sent; the rest can only be sent after
    // the workers have stopped.
    bool told;
    struct handover_memory states, sums; // reserved memory for the states and the sums
    bool connections; // true if the new firewall requests the workers' connections
    bool learned;     // true if the new firewall requests the learned addresses
};

/// Begins the transfer to a new process. The policy must stay loaded until handover_give_commit or
/// handover_give_end.
/// - values: values of --control and --events, as made by handover_values; they must outlive
///   *giving.
/// - client_fd: connection on which the new process requested the upgrade; owned by *giving on
///   success.
/// - kind: backend of the new process.
/// - giving: out: state of the transfer.
/// - Returns 0, or -errno with failure filled in and *giving NULL.
int handover_give_prepare(const struct state *state, char *const values[static HANDOVER_FD_COUNT],
                          int client_fd, enum queue_kind kind, struct handover_giving **giving,
                          struct failure *failure);

/// Returns the descriptor to poll for reading. handover_give_go_on must be called when it is
/// readable, and at handover_give_due_ns at the latest.
int handover_give_fd(const struct handover_giving *giving);

/// Returns the time by which handover_give_go_on must be called (wait_clock); 0 = at once.
uint64_t handover_give_due_ns(const struct handover_giving *giving);

/// Does the next step of the preparation. After the last step, checks for "commit".
/// - fds: descriptors of the options, indexed by enum handover_fd; -1 = the option has no
///   descriptor to send.
/// - ready: out: true if the new firewall has sent "commit".
/// - Returns 0, or -errno with failure filled in: the new firewall has closed the connection, is
///   late, or has sent a line other than "commit".
int handover_give_go_on(const struct state *state, struct handover_giving *giving,
                        const int fds[HANDOVER_FD_COUNT], bool *ready, struct failure *failure);

/// Transfers everything to the new process, which is ready, and frees *giving.
/// - listener: control socket; -1 without --control.
/// - Returns true if the new process filters. Then the workers are stopped and their queues
///   released, and this process must end without using the descriptors that it sent. Otherwise its
///   workers run again; the log and COUNT_UPGRADES_FAILED show the failure.
bool handover_give_commit(struct state *state, struct handover_giving *giving, int listener);

/// Makes this firewall the listener at the control socket again, logs that it continues to filter,
/// with the reason, and counts the failed upgrade.
/// - listener: control socket, at which the new firewall may have listened; -1 without --control.
void handover_give_stay(const struct failure *failure, int listener);

/// Frees a transfer that handover_give_prepare has begun, and closes the connection to the new
/// process. NULL is allowed.
void handover_give_end(struct handover_giving *giving);

#endif
