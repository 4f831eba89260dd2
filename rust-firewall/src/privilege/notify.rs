// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket connect sendto close getpid
//! What systemd is told (sd_notify(3)), if it started us: nothing of this can fail.

use nix::unistd::Pid;
use sd_notify::NotifyState;

/// Signs of life within the time that systemd waits for one.
const PARTS: u64 = 2;

fn tell(state: &[NotifyState]) {
    let _ = sd_notify::notify(state); // systemd may be gone, which is its own affair
}

/// Packets are decided.
/// - status: by what, for `systemctl status`.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The policy is read anew; `ready` ends it.
pub fn reloading() {
    let mut state = vec![NotifyState::Reloading];
    state.extend(NotifyState::monotonic_usec_now());
    tell(&state);
}

/// The end has begun.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Another process goes on as the service: after an upgrade, said by the old one.
pub fn main_pid(pid: Pid) {
    tell(&[NotifyState::MainPid(pid.as_raw().unsigned_abs())]);
}

/// How often systemd wants to hear `watchdog`, in milliseconds: half of WatchdogSec; 0 = never.
pub fn watchdog_ms() -> u64 {
    sd_notify::watchdog_enabled().map_or(0, |limit| limit.as_millis() as u64 / PARTS)
}

/// Packets are decided, still.
pub fn watchdog() {
    tell(&[NotifyState::Watchdog]);
}
