// SPDX-License-Identifier: GPL-2.0-or-later
//! What happened beside the way of a packet, or rarely on it, counted for the whole process. Any
//! thread may count and read.

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::spec::count::*;

static COUNTS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Adds to a count.
pub fn add(count: Count, amount: u64) {
    if let Some(counted) = COUNTS.get(count as usize) {
        counted.fetch_add(amount, Ordering::Relaxed);
    }
}

/// A count so far.
pub fn get(count: Count) -> u64 {
    let counted = COUNTS.get(count as usize);
    counted.map_or(0, |counted| counted.load(Ordering::Relaxed))
}
