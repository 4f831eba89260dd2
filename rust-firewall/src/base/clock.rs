// SPDX-License-Identifier: GPL-2.0-or-later
//! Time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the UNIX time in milliseconds.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
