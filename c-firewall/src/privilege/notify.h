// SPDX-License-Identifier: GPL-2.0-or-later
// Notifications to systemd (sd_notify(3)), if systemd has started the program. Errors are ignored.
#ifndef PRIVILEGE_NOTIFY_H
#define PRIVILEGE_NOTIFY_H

#include <stdint.h>
#include <sys/types.h>

/// Notifies systemd that the firewall decides packets: the service is ready, or has reloaded.
/// - status: text for `systemctl status`: the policy that decides packets, or that there is no
///   policy.
void notify_ready(const char *status);

/// Notifies systemd that the policy is being reloaded. notify_ready notifies systemd of the end of
/// the reload.
void notify_reloading(void);

/// Notifies systemd that the firewall ends.
void notify_stopping(void);

/// Notifies systemd, from the old process of an upgrade, that another process is now the service.
void notify_main_pid(pid_t pid);

/// Returns the interval at which notify_watchdog must be called, in milliseconds: half of
/// WatchdogSec; 0 = never.
uint64_t notify_watchdog_ms(void);

/// Notifies systemd's watchdog that packets are still decided.
void notify_watchdog(void);

#endif
