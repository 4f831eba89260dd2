// SPDX-License-Identifier: GPL-2.0-or-later
// Loop of the main thread while the workers filter: it waits for signals, clients of the control
// socket, the guard and deadlines, and handles them one after another.
#ifndef DAEMON_SUPERVISE_H
#define DAEMON_SUPERVISE_H

#include "control/control.h"
#include "daemon/types.h"
#include "state/report.h"

/// Runs the main thread's loop until daemon->stopped.
void supervise(struct daemon *daemon);

/// Returns the handlers of the control socket's requests. daemon must outlive them.
struct control_actions supervise_actions(struct daemon *daemon);

/// Notifies systemd that the firewall is ready and decides packets. The status text shows the
/// policy's generation, file and number of rules, or that there is no policy; and whether the last
/// reload failed.
void supervise_tell_ready(const struct state *state);

/// Prints the ledgers of all queues.
void supervise_print_ledgers(struct daemon *daemon, enum report_reason reason);

#endif
