// SPDX-License-Identifier: GPL-2.0-or-later
// Types of the running firewall.
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

/// State of the running firewall.
struct daemon {
    struct options *options;
    struct state state;
    struct events *events;
    struct control *control; // control socket; NULL without --control
    // Values of --control and --events with absolute paths, for an upgrade; NULL = not set.
    char *values[HANDOVER_FD_COUNT];
    struct guard guard;
    struct watchdog watchdog; // watchdog thread, if systemd has a watchdog for this service
    int signals;              // descriptor from which signals are read (signalfd)
    uint64_t drain_end_ns;    // deadline of a drain (wait_clock); UINT64_MAX = no drain
    bool started;             // true if an event has reported the start of this firewall
    bool stopped;             // true as soon as the firewall must end
    // Upgrade in progress: another firewall prepares to take over; NULL = none.
    struct handover_giving *giving;
    // True while queues and sockets belong to another firewall: to the new firewall of an upgrade,
    // or to the old firewall until it has handed them over.
    bool handed_over;
};

#endif
