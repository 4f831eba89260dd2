// SPDX-License-Identifier: GPL-2.0-or-later
// What systemd is told (sd_notify(3)), if it started us: nothing of this can fail.
#ifndef PRIVILEGE_NOTIFY_H
#define PRIVILEGE_NOTIFY_H

#include <stdint.h>
#include <sys/types.h>

/// Packets are decided.
/// - status: by what, for `systemctl status`.
void notify_ready(const char *status);

/// The policy is read anew; notify_ready ends it.
void notify_reloading(void);

/// The end has begun.
void notify_stopping(void);

/// Another process goes on as the service: after an upgrade, said by the old one.
void notify_main_pid(pid_t pid);

/// How often systemd wants to hear notify_watchdog, in milliseconds: half of WatchdogSec; 0 =
/// never.
uint64_t notify_watchdog_ms(void);

/// Packets are decided, still.
void notify_watchdog(void);

#endif
