// SPDX-License-Identifier: GPL-2.0-or-later
// Start and end of the firewall.
//
// Theory of operation: steps that may fail come first, steps that need rights before these are
// given up, threads last. With --take-over the old firewall's packets wait from
// handover_take_commit on, so that all slow steps come before it.
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "options/options.h"

/// Runs the firewall until a signal, a drain or an upgrade ends it. Adjusts the options to the
/// policy and the kernel. Returns the exit code.
int daemon_run(struct options *options);

#endif
