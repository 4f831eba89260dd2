// SPDX-License-Identifier: GPL-2.0-or-later
// The firewall as it runs: how it starts and ends.
//
// Theory of operation: what can fail comes first, what needs rights before they are given up,
// threads last. With --take-over the packets of the old firewall wait from
// handover_take_commit on, so that what takes long comes before it.
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "options/options.h"

/// Filters until a signal says to stop. Changes options to what the policy and the kernel made of
/// them. Returns the exit code.
int daemon_run(struct options *options);

#endif
