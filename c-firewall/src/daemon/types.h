// SPDX-License-Identifier: GPL-2.0-or-later
// All that runs, for those who start it, act on it and end it.
#ifndef DAEMON_TYPES_H
#define DAEMON_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "control/control.h"
#include "daemon/watchdog.h"
#include "events/events.h"
#include "guard/guard.h"
#include "handover/give.h"
#include "options/options.h"
#include "state/state.h"

/// All that runs.
struct daemon {
    struct options *options;
    struct state state;
    struct events *events;
    struct control *control; // NULL without --control
    struct guard guard;
    struct watchdog watchdog; // under a systemd that has one
    int signals;              // signalfd
    uint64_t drain_end_ns;    // of wait_clock: when a drain ends at the latest; UINT64_MAX = none
    bool stopped;             // the end has come
    struct handover_giving *giving; // another firewall prepares to take over; NULL = none does
    bool handed_over;               // all is another firewall's, which takes over or goes on
};

#endif
