// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Common parts of all programs that exchange messages: `PROGRAM OPERATION BYTES COUNT [--each]`
/// makes COUNT exchanges and prints one JSON object. An error prints a line on stderr and returns
/// exit code 1; an unknown operation or a wrong number of arguments returns 2.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// Operation to measure: an exchange of messages with the kernel or another process, such as a
/// request and its reply. `open` prepares it before the clock runs, and `once` makes one exchange.
/// The functions end the program on errors.
struct operation {
    const char *name;
    void (*open)(size_t bytes);
    void (*once)(void);
    void (*close)(void);
    /// Replaces `once` unless NULL: makes an exchange that measures itself; returns its
    /// nanoseconds.
    uint64_t (*timed)(void);
};

/// Implements main(). `operations` ends with a row without a name.
int exchange_main(int count, char **arguments, const struct operation *operations);

/// Adds a peer, whose CPU time is counted, too; at most two. 0 removes all peers.
void exchange_peer(pid_t pid);

/// Ends the program with `error: PROGRAM: WHAT: strerror(errno)`.
void fail(const char *what) __attribute__((noreturn));
/// Ends the program with `error: PROGRAM: WHAT: WHY`.
void fail_because(const char *what, const char *why) __attribute__((noreturn));
