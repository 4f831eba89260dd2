// SPDX-License-Identifier: GPL-2.0-or-later
// The new firewall's side of an upgrade (handover.h), in the order of its steps.
#ifndef HANDOVER_TAKE_H
#define HANDOVER_TAKE_H

#include "handover/handover.h"
#include "options/options.h"
#include "ruleset/load.h"
#include "state/state.h"

/// Asks the process at options->take_over for all that can be prepared with. It filters on.
/// - taken: as handover_init makes it.
/// - Returns 0, or -errno with failure filled in: nobody answers, or a stranger, or one whose
///   queues are others than options says.
int handover_take(const struct options *options, struct handover *taken, struct failure *failure);

/// Finds the rules of our policy among the old one's, and makes room for their states.
/// - Returns 0, or -errno with failure filled in.
int handover_take_prepare(struct handover *taken, const struct loaded *loaded,
                          struct failure *failure);

/// Asks the old process to stop, when everything is ready but the workers, and has ours go on
/// where its own ended. Packets wait until they run.
/// - Returns 0, or -errno with failure filled in: what is wrong with the old one.
int handover_take_commit(struct handover *taken, struct state *state, struct failure *failure);

/// To be called as soon as the workers run: adds what had been counted. Returns 0, or -errno with
/// failure filled in.
int handover_take_running(struct handover *taken, struct state *state, struct failure *failure);

/// Notifies the old process that the workers run, and waits until it lets go.
/// - Returns 0, or -errno with failure filled in: the old process goes on, so that this one has to
///   end.
int handover_taken(struct handover *taken, struct failure *failure);

#endif
