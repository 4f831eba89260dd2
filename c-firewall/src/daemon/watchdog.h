// SPDX-License-Identifier: GPL-2.0-or-later
// Thread that notifies systemd's watchdog as long as the loop of each worker makes new rounds. It
// is independent of the main thread, which may be busy with a large policy while no packet waits
// for it.
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "worker/workers.h"

/// Thread that notifies systemd's watchdog while the workers' loops make new rounds.
struct watchdog {
    bool started; // true if the thread runs and must be joined
    pthread_t thread;
    int stop_fd; // eventfd that requests the thread's end, if started
    const struct workers *workers;
    uint64_t period_ms;
};

/// Starts the watchdog thread, if systemd has a watchdog for this service.
/// - workers: outlive the thread.
/// - Returns 0, or -errno with failure filled in.
int watchdog_start(struct watchdog *watchdog, const struct workers *workers,
                   struct failure *failure);

/// Ends the watchdog thread, if it was started.
void watchdog_stop(struct watchdog *watchdog);

#endif
