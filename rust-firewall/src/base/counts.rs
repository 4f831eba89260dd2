// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts of the whole process, for events outside the packet path, and for rare events on it. Any thread may count and
//! read.

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::spec::count::*;

static COUNTS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Adds to a count, which all threads share.
pub fn add(count: Count, amount: u64) {
    if let Some(counted) = COUNTS.get(count as usize) {
        counted.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Returns the value of a count, which all threads share.
pub fn get(count: Count) -> u64 {
    let counted = COUNTS.get(count as usize);
    counted.map_or(0, |counted| counted.load(Ordering::Relaxed))
}
