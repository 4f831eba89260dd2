// SPDX-License-Identifier: GPL-2.0-or-later
//! The time of day, and pauses that differ from host to host.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    unix_ms() / 1000
}

/// A random duration from three quarters of `about` to five quarters, so that hosts that began together don't stay together.
pub fn jitter(about: Duration) -> Duration {
    // Each RandomState has keys of its own.
    let random = RandomState::new().build_hasher().finish() % 1000;
    about * 3 / 4 + about / 2 * random as u32 / 1000
}
