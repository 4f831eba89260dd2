// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a ring or of a thread. Each has its own block on its own cache lines; readers sum them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::{Finding, Reason, State, FINDINGS, REASONS, STATES};

#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    states: [AtomicU64; STATES.len()],
    reasons: [AtomicU64; REASONS.len()],
    findings: [AtomicU64; FINDINGS.len()],
    /// Attempts after the first, following a time-out.
    pub retries: AtomicU64,
    /// Attempts for which the machine had no port, memory or descriptor.
    pub shortages: AtomicU64,
    /// Times that the number in flight was halved after a shortage.
    pub slowdowns: AtomicU64,
    /// Times that the completion queue was found to have overflowed; the kernel stored the completions.
    pub overflows: AtomicU64,
    /// System calls of the engine; in a --syn scan, calls of sendmmsg, and reads of the capture ring.
    pub calls: AtomicU64,
    /// Frames for which the capture ring had no room (--syn).
    pub ring_losses: AtomicU64,
    /// Frames that answered no SYN of this scan (--syn).
    pub strangers: AtomicU64,
}

/// Adds to a counter. Only one thread at a time writes it, so a plain addition suffices.
pub fn add(count: &AtomicU64, amount: u64) {
    count.store(count.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl Counts {
    pub fn finished(&self, state: State, reason: Reason, finding: Finding) {
        add(&self.states[state as usize], 1);
        add(&self.reasons[reason as usize], 1);
        add(&self.findings[finding as usize], 1);
    }
}

/// Sums of the counters over all rings, which may count meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub states: [u64; STATES.len()],
    pub reasons: [u64; REASONS.len()],
    pub findings: [u64; FINDINGS.len()],
    pub retries: u64,
    pub shortages: u64,
    pub slowdowns: u64,
    pub overflows: u64,
    pub calls: u64,
    pub ring_losses: u64,
    pub strangers: u64,
}

impl Sum {
    pub fn of(all: &[Counts]) -> Sum {
        let mut sum = Sum::default();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for counts in all {
            let into = |to: &mut [u64], from: &[AtomicU64]| {
                to.iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to += read(from));
            };
            into(&mut sum.states, &counts.states);
            into(&mut sum.reasons, &counts.reasons);
            into(&mut sum.findings, &counts.findings);
            sum.retries += read(&counts.retries);
            sum.shortages += read(&counts.shortages);
            sum.slowdowns += read(&counts.slowdowns);
            sum.overflows += read(&counts.overflows);
            sum.calls += read(&counts.calls);
            sum.ring_losses += read(&counts.ring_losses);
            sum.strangers += read(&counts.strangers);
        }
        sum
    }

    pub fn done(&self) -> u64 {
        self.states.iter().sum()
    }

    pub fn state(&self, state: State) -> u64 {
        self.states[state as usize]
    }
}
