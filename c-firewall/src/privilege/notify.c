// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket getsockopt setsockopt sendmsg close getpid getuid geteuid getgid getegid
#include "privilege/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

enum {
    US_PER_MS = 1000,
    US_PER_SECOND = 1000000,
    NS_PER_US = 1000,
    PARTS = 2, // number of watchdog notifications within WatchdogSec, systemd's time limit
};

void notify_ready(const char *status) { sd_notifyf(0, "READY=1\nSTATUS=%s\n", status); }

void notify_reloading(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n",
               (uint64_t)now.tv_sec * US_PER_SECOND + (uint64_t)now.tv_nsec / NS_PER_US);
}

void notify_stopping(void) { sd_notify(0, "STOPPING=1\n"); }

void notify_main_pid(pid_t pid) { sd_notifyf(0, "MAINPID=%d\n", (int)pid); }

uint64_t notify_watchdog_ms(void) {
    uint64_t us;

    return sd_watchdog_enabled(0, &us) > 0 ? us / US_PER_MS / PARTS : 0;
}

void notify_watchdog(void) { sd_notify(0, "WATCHDOG=1\n"); }
