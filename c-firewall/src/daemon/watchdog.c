// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: eventfd2 poll write close
#include "daemon/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "privilege/notify.h"

/// Time between checks whether a worker's loop has begun a new round, in milliseconds.
enum { LOOK_MS = 20 };

/// Waits for a time, or until the thread must end. Returns true if it must end.
static bool ends_within(const struct watchdog *watchdog, uint64_t ms) {
    struct pollfd source = {.fd = watchdog->stop_fd, .events = POLLIN};

    (void)poll(&source, 1,
               ms < INT32_MAX ? (int)ms : INT32_MAX); // it can't fail: signals are blocked
    return source.revents != 0;
}

static bool all_have_turned(const struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        if (!worker_has_turned(&workers->all[i]))
            return false;
    return true;
}

/// Notifies systemd once per period, after each worker's loop has begun a new round.
static void *run(void *argument) {
    const struct watchdog *watchdog = argument;
    const struct workers *workers = watchdog->workers;

    while (!ends_within(watchdog, watchdog->period_ms)) {
        for (uint32_t i = 0; i < workers->count; i++)
            worker_ask_turn(&workers->all[i]);
        while (!all_have_turned(workers))
            if (ends_within(watchdog, LOOK_MS))
                return NULL;
        notify_watchdog();
    }
    return NULL;
}

int watchdog_start(struct watchdog *watchdog, const struct workers *workers,
                   struct failure *failure) {
    int error;

    *watchdog = (struct watchdog){.workers = workers, .period_ms = notify_watchdog_ms()};
    if (watchdog->period_ms == 0)
        return 0;
    watchdog->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watchdog->stop_fd < 0) {
        error = errno;
        failure_set_start(failure, "eventfd", error);
        return -error;
    }
    error = pthread_create(&watchdog->thread, NULL, run, watchdog);
    if (error != 0) {
        close(watchdog->stop_fd);
        failure_set_start(failure, "pthread_create", error);
        return -error;
    }
    watchdog->started = true;
    return 0;
}

void watchdog_stop(struct watchdog *watchdog) {
    if (!watchdog->started)
        return;
    eventfd_write(watchdog->stop_fd, 1);
    pthread_join(watchdog->thread, NULL);
    close(watchdog->stop_fd);
    watchdog->started = false;
}
