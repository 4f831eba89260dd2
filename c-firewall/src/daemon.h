// SPDX-License-Identifier: GPL-2.0-or-later
// The firewall as it runs: policy, workers, signals, reports.
#ifndef DAEMON_H
#define DAEMON_H

#include "options.h"

/// Filters until a signal says to stop. Changes options to what the policy and the kernel made of
/// them. Returns the exit code.
int daemon_run(struct options *options);

#endif
