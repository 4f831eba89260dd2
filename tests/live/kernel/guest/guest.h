// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Program that runs in the virtual machine: tests of the lab's modules. Each test runs in a
/// separate process, as a user without rights unless it needs root. A test that doesn't end, or
/// can't be killed, has failed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// User id without rights.
#define NOBODY 65534

struct guest_test {
    const char *name;
    void (*run)(void);
    bool as_root;
};

extern const struct guest_test echo_tests[];
extern const struct guest_test message_tests[];
extern const struct guest_test message_end_tests[];
extern const struct guest_test message_memory_tests[];
extern const struct guest_test twinring_tests[];
extern const struct guest_test fault_tests[];

/// True if the kernel is a debug kernel, which is slow and retains freed memory for a while.
extern bool guest_debug_kernel;

/// Prints the source file, the line and a message, and ends the test's process as failed.
void guest_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            guest_fail(__FILE__, __LINE__, "%s", #condition);                                      \
    } while (0)

/// Fails unless both values are equal as numbers. Prints both if they differ.
#define CHECK_EQUAL(got, expected)                                                                 \
    do {                                                                                           \
        long long got_ = (got), expected_ = (expected);                                            \
        if (got_ != expected_)                                                                     \
            guest_fail(__FILE__, __LINE__, "%s: %lld, expected %lld", #got, got_, expected_);      \
    } while (0)

/// Returns the time of CLOCK_MONOTONIC in ns.
uint64_t now_ns(void);
void sleep_ms(unsigned int ms);
/// Starts a process that calls `run`, and passes when `run` returns. The test must wait for it.
pid_t spawn(void (*run)(void *), void *argument);
/// Waits up to 60 s until a process ends. Returns its wait status. Fails the test if the process
/// still runs.
int join(pid_t pid);
/// Waits up to 5 s until a process sleeps in the kernel. Fails the test if it does not.
void wait_until_asleep(pid_t pid);
/// Returns the number after a name in a file of /proc, e.g. "SUnreclaim:" in /proc/meminfo; -1 if
/// the name is missing.
long long proc_value(const char *file, const char *name);
