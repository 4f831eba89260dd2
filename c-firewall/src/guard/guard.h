// SPDX-License-Identifier: GPL-2.0-or-later
// The watchdog: a process of its own, so that it sees the firewall stopped or killed, too.
//
// Theory of operation: the guard is this program again (/proc/self/exe, `guard` as its first
// argument), with the netlink sockets of the queues inherited: the kernel takes verdicts of whoever
// has the socket. Four times in a deadline it looks at the kernel's figures of each queue. If
// packets wait, and none was answered for the deadline, it answers those that were there when the
// deadline began, by --fail stall, warns, and tells the firewall, by a socket pair. When that hangs
// up without a word of good-bye, the firewall has crashed: the guard ends as well, and the kernel
// drops what waits; or with --fail crash=open it accepts everything from then on, until SIGTERM, or
// until another firewall takes its place (guard_relieve). Until it is told to go on for the first
// time the queues may still be another firewall's: then it looks at nothing, and a hang-up is no
// crash.
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "options/options.h"
#include "queue/proc.h"

#define GUARD_COMMAND "guard"       // the first argument of the guard's process
#define GUARD_NAME QUEUE_PROC_GUARD // its name, as ps and /proc/PID/comm tell it

enum {
    // The guard's arguments are: the program's name, GUARD_COMMAND, the deadline in milliseconds,
    // the modes of stall, crash and overload, the sandbox (on or off), the user ("" = the default),
    // the level of what is said on stderr; from here on FD:NUMBER for each queue.
    GUARD_ARGUMENTS = 9,
    GUARD_READY = 'r', // what the guard says first, if it does not send a struct failure
    // Messages to the guard, a byte each.
    GUARD_BYE = 'b',
    GUARD_HOLD = 'h', // look no more, but for a hang-up
    GUARD_GO_ON = 'g',
};

/// In the firewall: how to reach the guard.
struct guard {
    int fd; // of the socket pair; -1 = there is no guard
    pid_t pid;
};

/// Message of the guard.
struct guard_note {
    uint16_t queue;
    bool begins;      // a stall begins; else one goes on
    uint32_t packets; // that the guard has just answered
    uint32_t id;      // of the last of them
};

/// Whether the options ask for a guard.
bool guard_wanted(const struct options *options);

/// Ends the guard of a firewall that is gone, if it still holds one of our queues. To be called
/// before queues are opened, with the rights of the start.
void guard_relieve(const struct options *options);

/// Starts the guard, if guard_wanted; without, guard->fd is -1. To be called before threads are
/// started and rights are given up. It waits for guard_hold(…, false).
/// - queue_fds: the netlink sockets of the queues `numbers`.
/// - Returns 0, or -errno with failure filled in.
int guard_start(struct guard *guard, const struct options *options, const int *queue_fds,
                const uint16_t *numbers, uint32_t count, struct failure *failure);

/// The descriptor to poll for reading; -1 if there is no guard.
int guard_fd(const struct guard *guard);

/// Reads the guard's message without waiting.
/// - Returns true with *note filled in; false if there is nothing more. If the guard has ended by
///   itself, this warns, once, and guard_fd is -1 from then on.
bool guard_read(struct guard *guard, struct guard_note *note);

/// Has the guard overlook a stall, or go on: nobody answers while the queues go from one firewall
/// to another.
void guard_hold(const struct guard *guard, bool hold);

/// Asks the guard to end, and waits until it has ended: the firewall ends as it was told to, or
/// another one has taken over.
void guard_end(struct guard *guard);

#endif
