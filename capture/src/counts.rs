// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted while it runs, and the ledger: what the kernel counted is what was delivered and what its rings
//! dropped; what was delivered is what was written and what was not.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one ring; only its reader writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RingCounts {
    /// As the kernel said when it was last asked: what passed the filter.
    pub kernel: AtomicU64,
    pub drops: AtomicU64,
    pub delivered: AtomicU64,
    /// How often the kernel was asked for all the others' sake.
    pub asked: AtomicU64,
}

/// Only the writer writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WriterCounts {
    pub written: AtomicU64,
    pub unwritten: AtomicU64,
    /// Files that were begun.
    pub files: AtomicU64,
}

#[derive(Debug)]
pub struct Counts {
    pub rings: Vec<RingCounts>,
    pub writer: WriterCounts,
}

/// One thread writes each count, so that a plain addition will do.
pub fn add(count: &AtomicU64, amount: u64) {
    count.store(count.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

pub fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Counts {
    pub fn new(rings: usize) -> Counts {
        Counts {
            rings: (0..rings).map(|_| RingCounts::default()).collect(),
            writer: WriterCounts::default(),
        }
    }

    pub fn ledger(&self) -> Ledger {
        // Against the packets' way, so that a moving ledger has no packet written that was never delivered.
        let (written, unwritten) = (read(&self.writer.written), read(&self.writer.unwritten));
        let sum =
            |count: fn(&RingCounts) -> &AtomicU64| self.rings.iter().map(count).map(read).sum();
        Ledger {
            written,
            unwritten,
            delivered: sum(|ring| &ring.delivered),
            drops: sum(|ring| &ring.drops),
            kernel: sum(|ring| &ring.kernel),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub kernel: u64,
    pub drops: u64,
    pub delivered: u64,
    pub written: u64,
    pub unwritten: u64,
}

impl Ledger {
    pub fn reconciles(&self) -> bool {
        self.kernel == self.delivered + self.drops
            && self.delivered == self.written + self.unwritten
    }
}

/// What one side has more than the other, under a name.
fn rest(f: &mut fmt::Formatter, name: &str, whole: u64, parts: u64) -> fmt::Result {
    match whole as i64 - parts as i64 {
        0 => writeln!(f),
        rest => writeln!(f, " + {name} {rest}"),
    }
}

impl fmt::Display for Ledger {
    /// Two lines. What waits in a ring or between the threads is told while it runs; at the end there is none of it.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (kernel, drops, delivered) = (self.kernel, self.drops, self.delivered);
        write!(
            f,
            "ledger: kernel {kernel} = delivered {delivered} + ring drops {drops}"
        )?;
        rest(f, "waiting", kernel, delivered + drops)?;
        let (written, unwritten) = (self.written, self.unwritten);
        write!(
            f,
            "ledger: delivered {delivered} = written {written} + unwritten {unwritten}"
        )?;
        rest(f, "queued", delivered, written + unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_told() {
        let mut ledger = Ledger {
            kernel: 10,
            drops: 2,
            delivered: 8,
            written: 5,
            unwritten: 3,
        };
        assert!(ledger.reconciles());
        let text = "ledger: kernel 10 = delivered 8 + ring drops 2\nledger: delivered 8 = written 5 + unwritten 3\n";
        assert_eq!(ledger.to_string(), text);
        (ledger.kernel, ledger.written) = (11, 1);
        assert!(!ledger.reconciles());
        let text = "ledger: kernel 11 = delivered 8 + ring drops 2 + waiting 1\n\
                    ledger: delivered 8 = written 1 + unwritten 3 + queued 4\n";
        assert_eq!(ledger.to_string(), text);
    }
}
