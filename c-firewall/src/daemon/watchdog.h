// SPDX-License-Identifier: GPL-2.0-or-later
// The thread that feeds systemd's watchdog, as long as the loop of each worker turns. The main
// thread may be busy meanwhile: it reads large policies, and no packet waits for it.
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "worker/workers.h"

/// The thread.
struct watchdog {
    bool started; // there is a thread to join
    pthread_t thread;
    int stop_fd; // eventfd: request to end; with started
    const struct workers *workers;
    uint64_t period_ms;
};

/// Starts the thread, if systemd wants to hear of it.
/// - workers: live longer.
/// - Returns 0, or -errno with failure filled in.
int watchdog_start(struct watchdog *watchdog, const struct workers *workers,
                   struct failure *failure);

/// Ends the thread, if there is one.
void watchdog_stop(struct watchdog *watchdog);

#endif
