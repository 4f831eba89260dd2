// SPDX-License-Identifier: GPL-2.0-or-later
// Guard (watchdog) of the firewall: a process of its own, so that it also notices a stopped or
// killed firewall.
//
// Theory of operation: the guard is a second process of this program (/proc/self/exe, with `guard`
// as its first argument). It inherits the netlink sockets of the queues; the kernel accepts
// verdicts from any process that has the socket. Four times per deadline it reads the kernel's
// figures of each queue (/proc/net/netfilter/nfnetlink_queue). If packets wait and none was
// answered for the deadline, it answers the packets that already waited when the deadline began, as
// --fail stall says, logs a warning, and notifies the firewall over a socket pair. If the firewall
// closes the socket pair without the command GUARD_BYE, it has crashed. Then the guard ends as
// well, and the kernel drops the waiting packets; or, with --fail crash=open, it accepts all
// packets until SIGTERM, or until another firewall replaces it (guard_relieve). Until the first
// command GUARD_GO_ON the queues may still belong to another firewall: the guard reads no figures,
// and does not treat a closed socket as a crash.
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "options/options.h"
#include "queue/proc.h"

#define GUARD_COMMAND "guard"       // first argument of the guard's process
#define GUARD_NAME QUEUE_PROC_GUARD // name of the guard's process in ps and /proc/PID/comm

enum {
    // Number of arguments before the queues: program name, GUARD_COMMAND, deadline in milliseconds,
    // modes of stall, crash and overload, sandbox (on or off), user ("" = the default), log level.
    // Then comes FD:NUMBER for each queue.
    GUARD_ARGUMENTS = 9,
    // First message of a guard that has started. A guard that can't start sends a struct failure
    // instead.
    GUARD_READY = 'r',
    // Command to the guard: end. Each command is one byte.
    GUARD_BYE = 'b',
    GUARD_HOLD = 'h',  // command to the guard: stop watching the queues until GUARD_GO_ON
    GUARD_GO_ON = 'g', // command to the guard: watch the queues
};

/// Connection of the firewall to its guard, the process that answers packets when the firewall
/// can't.
struct guard {
    int fd; // the firewall's end of the socket pair; -1 = there is no guard
    pid_t pid;
};

/// Message of the guard process to the firewall: the guard has answered packets of a queue in the
/// place of the firewall.
struct guard_note {
    uint16_t queue;
    bool begins; // true if a stall begins, false if a stall continues
    // Number of packets that the guard has answered since its last message about the queue.
    uint32_t packets;
    uint32_t id; // ID of the last packet that the guard answered
};

/// Returns true if the options require a guard process, which answers packets when the firewall
/// can't: a deadline (--deadline), or --fail crash=open.
bool guard_wanted(const struct options *options);

/// Ends the guard processes of crashed firewalls that still hold one of this firewall's queues.
/// Must be called before queues are opened and before rights are given up.
void guard_relieve(const struct options *options);

/// Starts the guard process if guard_wanted; otherwise guard->fd is -1. Must be called before
/// threads are started and rights are given up. The guard is paused until guard_hold is called with
/// false.
/// - queue_fds: netlink sockets of the queues `numbers`.
/// - Returns 0, or -errno with failure filled in.
int guard_start(struct guard *guard, const struct options *options, const int *queue_fds,
                const uint16_t *numbers, uint32_t count, struct failure *failure);

/// Returns the descriptor to poll for reading; -1 if there is no guard.
int guard_fd(const struct guard *guard);

/// Receives the guard's next message without waiting.
/// - Returns true with *note filled in; false if no message is available. If the guard has ended by
///   itself, logs one warning, and guard_fd returns -1 from then on.
bool guard_read(struct guard *guard, struct guard_note *note);

/// Pauses the guard if `hold` is true; otherwise resumes it. The guard is paused while no firewall
/// answers, because the queues are being handed over.
void guard_hold(const struct guard *guard, bool hold);

/// Sends the command to end, and waits until the guard has ended, or has sent no message for a
/// second. Must be called before the firewall ends normally, or after another firewall has taken
/// over.
void guard_end(struct guard *guard);

#endif
