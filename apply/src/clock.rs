// SPDX-License-Identifier: GPL-2.0-or-later
//! The two clocks of a deadline: boot time, which includes suspend and can't be set, and the date for users.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{clock_gettime, ClockId};

/// Returns milliseconds since the boot (CLOCK_BOOTTIME).
pub fn boot_ms() -> u64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        time.tv_sec() as u64 * 1000 + time.tv_nsec() as u64 / 1_000_000
    })
}

/// Returns milliseconds since 1970 (CLOCK_REALTIME).
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// Returns the kernel's id of this boot (/proc/sys/kernel/random/boot_id); empty without /proc.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}
