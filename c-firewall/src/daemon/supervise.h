// SPDX-License-Identifier: GPL-2.0-or-later
// What the main thread does while the workers filter: it waits for signals, for clients of the
// control socket, for the guard and for times, and does what they ask for, one after the other.
#ifndef DAEMON_SUPERVISE_H
#define DAEMON_SUPERVISE_H

#include "control/control.h"
#include "daemon/types.h"
#include "state/report.h"

/// Does what it is told until daemon->stopped.
void supervise(struct daemon *daemon);

/// Handlers of the control socket's requests; daemon lives longer.
struct control_actions supervise_actions(struct daemon *daemon);

/// Notifies systemd that packets are decided, and by what.
void supervise_tell_ready(const struct state *state);

/// Prints the ledgers of all queues.
void supervise_print_ledgers(struct daemon *daemon, enum report_reason reason);

#endif
