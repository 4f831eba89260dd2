// SPDX-License-Identifier: GPL-2.0-or-later
//! Time of day, and pauses that differ from host to host.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// Returns seconds since 1970.
pub fn unix_seconds() -> u64 {
    unix_ms() / 1000
}

/// Returns a random duration from 3/4 to 5/4 of `about`, so that hosts that began together don't stay together.
pub fn jitter(about: Duration) -> Duration {
    // Each RandomState has different random keys.
    let random = RandomState::new().build_hasher().finish() % 1000;
    about * 3 / 4 + about / 2 * random as u32 / 1000
}
