// SPDX-License-Identifier: GPL-2.0-or-later
// What the main thread does while the workers filter: it waits for signals, for clients of the
// control socket, for the guard and for times, and does what they ask for, one after the other.
#ifndef SUPERVISE_H
#define SUPERVISE_H

#include "control.h"
#include "daemon.h"
#include "report.h"

/// Does what it is told until daemon->stopped.
void supervise(struct daemon *daemon);

/// What requests of the control socket do; daemon lives longer.
struct control_actions supervise_actions(struct daemon *daemon);

/// Prints the ledgers of all queues.
void supervise_print_ledgers(struct daemon *daemon, enum report_reason reason);

#endif
