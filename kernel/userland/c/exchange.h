// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// What every program that exchanges messages has in common: `PROGRAM OPERATION BYTES COUNT
/// [--each]` makes COUNT exchanges and prints one JSON object. An error is a line on stderr and
/// exit code 1; an operation that the program hasn't is 2.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// One kind of exchange. What it needs is opened before the clock runs; the functions end the
/// program if anything fails.
struct operation {
    const char *name;
    void (*open)(size_t bytes);
    void (*once)(void);
    void (*close)(void);
    /// In place of `once`: an exchange that measures itself, in nanoseconds. May be NULL.
    uint64_t (*timed)(void);
};

/// The whole of main(). `operations` ends with a row without a name.
int exchange_main(int count, char **arguments, const struct operation *operations);

/// Names the process at the other end, whose CPU time is added; 0 takes it back. At most two.
void exchange_peer(pid_t pid);

/// Ends the program with `error: WHAT: strerror(errno)`.
void fail(const char *what) __attribute__((noreturn));
/// The same with words in place of errno's.
void fail_because(const char *what, const char *why) __attribute__((noreturn));
