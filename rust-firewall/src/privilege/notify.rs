// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket connect sendto close getpid
//! What systemd is told (sd_notify(3)), if it started us: nothing of this can fail.

use std::time::Duration;

use nix::unistd::Pid;
use sd_notify::NotifyState;

/// Signs of life within the time that systemd waits for one.
const PARTS: u64 = 2;
/// For a policy to be read.
const READING: Duration = Duration::from_secs(600);

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

/// The program is alive.
pub fn watchdog() {
    tell(&[NotifyState::Watchdog]);
}

/// Has systemd wait for the next `watchdog` for ten minutes, or for as long as its unit says again.
/// Reading a large policy takes long, and the workers decide meanwhile.
pub fn patience(reading: bool) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let limit = match reading {
        true => limit.max(READING),
        false => limit,
    };
    let us = u32::try_from(limit.as_micros()).unwrap_or(u32::MAX);
    tell(&[NotifyState::WatchdogUsec(us)]);
}
