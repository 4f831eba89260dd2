// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a running capture, and the ledger: the kernel's count equals delivered plus ring drops, and delivered equals
//! written plus unwritten.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one ring; only its reader writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RingCounts {
    /// Packets that passed the filter, including dropped ones, as of the last query of the kernel.
    pub kernel: AtomicU64,
    pub drops: AtomicU64,
    pub delivered: AtomicU64,
    /// Number of the last SIGUSR1 query that the reader has answered.
    pub asked: AtomicU64,
}

/// Counters of the writer; only the writer writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WriterCounts {
    pub written: AtomicU64,
    pub unwritten: AtomicU64,
    /// Number of files that were begun.
    pub files: AtomicU64,
}

#[derive(Debug)]
pub struct Counts {
    pub rings: Vec<RingCounts>,
    pub writer: WriterCounts,
}

/// Adds to a counter. Each counter has a single writing thread, so a plain addition suffices.
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

    /// Returns the ledger of a running capture. A written packet was delivered, and a delivered packet was counted by
    /// the kernel, even if the reader has not added its batch to these counters yet.
    pub fn so_far(&self) -> Ledger {
        let mut ledger = self.ledger();
        ledger.delivered = ledger.delivered.max(ledger.written + ledger.unwritten);
        ledger.kernel = ledger.kernel.max(ledger.delivered + ledger.drops);
        ledger
    }

    pub fn ledger(&self) -> Ledger {
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

/// Ends a line of the ledger. Appends the difference between the line's number and the sum of its parts under a name,
/// unless it is zero.
fn rest(f: &mut fmt::Formatter, name: &str, whole: u64, parts: u64) -> fmt::Result {
    match whole as i64 - parts as i64 {
        0 => writeln!(f),
        rest => writeln!(f, " + {name} {rest}"),
    }
}

impl fmt::Display for Ledger {
    /// Writes two lines. A running capture also shows packets that wait in a ring or between the threads; at the end there
    /// are none.
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
    fn no_packet_is_written_before_it_is_delivered() {
        let counts = Counts::new(2);
        add(&counts.writer.written, 9);
        add(&counts.rings[0].drops, 2);
        add(&counts.rings[1].delivered, 3);
        let text = "ledger: kernel 11 = delivered 9 + ring drops 2\nledger: delivered 9 = written 9 + unwritten 0\n";
        assert_eq!(counts.so_far().to_string(), text);
        assert!(!counts.ledger().reconciles());
        add(&counts.rings[0].delivered, 8);
        add(&counts.rings[0].kernel, 20);
        let text = "ledger: kernel 20 = delivered 11 + ring drops 2 + waiting 7\n\
                    ledger: delivered 11 = written 9 + unwritten 0 + queued 2\n";
        assert_eq!(counts.so_far().to_string(), text);
    }

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
