// SPDX-License-Identifier: GPL-2.0-or-later
// The firewall as it runs: how it starts and ends.
//
// Theory of operation: what can fail comes first, what needs rights before they are given up,
// threads last. With --take-over the packets of the old firewall wait from handover_take on, so
// that what takes long comes before it.
#ifndef DAEMON_H
#define DAEMON_H

#include <stdbool.h>

#include "control.h"
#include "events.h"
#include "guard.h"
#include "metrics.h"
#include "options.h"
#include "state.h"

/// All that runs.
struct daemon {
    struct options *options;
    struct state state;
    struct events *events;
    struct metrics *metrics; // NULL without --metrics
    struct control *control; // NULL without --control
    struct guard guard;
    int signals;           // signalfd
    uint64_t drain_end_ns; // of wait_clock: when a drain ends at the latest; UINT64_MAX = none
    bool stopped;          // the end has come
    bool given;            // all is another firewall's, which takes over or goes on
};

/// Filters until a signal says to stop. Changes options to what the policy and the kernel made of
/// them. Returns the exit code.
int daemon_run(struct options *options);

#endif
