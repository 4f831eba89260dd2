// SPDX-License-Identifier: GPL-2.0-or-later
// The new firewall's side of an upgrade (handover.h). Its functions are called in the order in
// which they are declared.
#ifndef HANDOVER_TAKE_H
#define HANDOVER_TAKE_H

#include "handover/handover.h"
#include "options/options.h"
#include "ruleset/load.h"
#include "state/state.h"

/// Requests the upgrade from the process at options->take_over, and receives its state and
/// descriptors. The old process continues to filter.
/// - taken: initialised by handover_init.
/// - Returns 0, or -errno with failure filled in: no firewall answers, the old process refuses, or
///   its queues differ from the options.
int handover_take(const struct options *options, struct handover *taken, struct failure *failure);

/// Pairs the rules of the new policy with those of the old policy, and allocates memory for the old
/// policy's states.
/// - Returns 0, or -errno with failure filled in.
int handover_take_prepare(struct handover *taken, const struct loaded *loaded,
                          struct failure *failure);

/// Sends "commit" when everything but the workers is ready, and stores the old process's states,
/// connections and addresses. Packets wait until the workers run. If any connection is invalid, all
/// connections are discarded; the same holds for addresses.
/// - Returns 0, or -errno with failure filled in if the old process sends no valid states, or does
///   not send everything in time.
int handover_take_commit(struct handover *taken, struct state *state, struct failure *failure);

/// Receives the old process's sums (totals of log and counter statements, handover/counted). They
/// become the initial values of the corresponding statements of the new policy. Must be called
/// immediately after the workers start.
/// - Returns 0, or -errno with failure filled in.
int handover_take_running(struct handover *taken, struct state *state, struct failure *failure);

/// Sends "taken" to the old process when the workers run, and waits for its confirmation.
/// - Returns 0, or -errno with failure filled in: the old process continues to filter, and this
///   process must end.
int handover_taken(struct handover *taken, struct failure *failure);

#endif
