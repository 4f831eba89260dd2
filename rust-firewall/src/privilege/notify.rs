// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket connect sendto close getpid
//! Notifications to systemd (sd_notify(3)), if systemd has started the program. Errors are ignored.

use nix::unistd::Pid;
use sd_notify::NotifyState;

/// Number of watchdog notifications within WatchdogSec, systemd's time limit.
const PARTS: u64 = 2;

fn tell(state: &[NotifyState]) {
    let _ = sd_notify::notify(state); // ignored: systemd may be gone
}

/// Notifies systemd that the firewall decides packets: the service is ready, or has reloaded.
/// - status: text for `systemctl status`: the policy that decides packets, or that there is no policy.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies systemd that the policy is being reloaded. `ready` notifies systemd of the end of the reload.
pub fn reloading() {
    let mut state = vec![NotifyState::Reloading];
    state.extend(NotifyState::monotonic_usec_now());
    tell(&state);
}

/// Notifies systemd that the firewall ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Notifies systemd, from the old process of an upgrade, that another process is now the service.
pub fn main_pid(pid: Pid) {
    tell(&[NotifyState::MainPid(pid.as_raw().unsigned_abs())]);
}

/// Returns the interval at which `watchdog` must be called, in milliseconds: half of WatchdogSec; 0 = never.
pub fn watchdog_ms() -> u64 {
    sd_notify::watchdog_enabled().map_or(0, |limit| limit.as_millis() as u64 / PARTS)
}

/// Notifies systemd's watchdog that packets are still decided.
pub fn watchdog() {
    tell(&[NotifyState::Watchdog]);
}
