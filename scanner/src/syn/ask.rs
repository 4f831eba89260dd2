// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending thread: sends a SYN to all targets in order, then repeatedly to those without an answer.

use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::send::Sender;
use super::source::Sources;
use super::{Shared, ANSWERED, LEFT};
use crate::counts::{add, Counts};
use crate::failure::{Failure, Result};
use crate::rate::Rate;
use crate::record::{Outbox, Record};
use crate::state::{Reason, State};

/// Interval between two checks whether all targets have answered.
const LOOK: Duration = Duration::from_millis(5);

pub struct Asker<'a> {
    pub shared: &'a Shared<'a>,
    pub sender: Sender,
    pub sources: Sources,
    pub counts: &'a Counts,
    pub outbox: Outbox,
}

impl Asker<'_> {
    /// Sends SYNs to all targets, then to those without an answer. Waits for the last answers.
    pub fn run(&mut self) -> Result<()> {
        let (shared, plan) = (self.shared, self.shared.job.plan);
        for round in 0..=shared.job.retries {
            let begun = Instant::now();
            let asked = match round {
                0 => {
                    // Targets that an interrupted scan had asked in vain follow those that it had not asked.
                    let left = (0..plan.len()).filter(|&index| shared.of(index) == LEFT);
                    self.ask(plan.cursor().chain(left), false)?
                }
                _ => self.ask(0..plan.len(), true)?,
            };
            if asked == 0 {
                break;
            }
            // Waits for the time-out of the last targets; that of the first may have passed while the last were asked.
            let end = begun.elapsed() + shared.job.timeout;
            while begun.elapsed() < end && !self.stopped() && shared.any_left() {
                thread::sleep(LOOK.min(end.saturating_sub(begun.elapsed())));
            }
            if self.stopped() {
                break;
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.shared.job.stop.load(Ordering::Relaxed)
    }

    /// Sends a SYN to each target without an answer; returns the number sent.
    /// - again: true if the SYNs are counted as retries.
    fn ask(&mut self, indices: impl Iterator<Item = u64>, again: bool) -> Result<u64> {
        let plan = self.shared.job.plan;
        let clock = Instant::now();
        let mut rate = Rate::new(self.shared.job.rate, 0);
        let mut asked = 0;
        for index in indices {
            if self.shared.of(index) == ANSWERED {
                continue;
            }
            while rate.allowed(clock.elapsed().as_nanos() as u64) == 0 {
                self.flush()?;
                if self.stopped() {
                    return Ok(asked);
                }
                thread::sleep(Duration::from_micros(200));
            }
            rate.take(1);
            self.shared.asked(index);
            let (to, port) = plan.target(index);
            let Some(from) = self.sources.from(plan.targets.position(to).unwrap_or(0)) else {
                self.unreachable(index, Reason::NetUnreach);
                continue;
            };
            let sequence = self.shared.cookies.of(to.ip, port, self.shared.port);
            self.sender.add(index, from, to, port, sequence);
            asked += 1;
            add(&self.counts.retries, u64::from(again));
            if self.sender.is_full() {
                self.flush()?;
                if self.stopped() {
                    return Ok(asked);
                }
            }
        }
        self.flush()?;
        Ok(asked)
    }

    /// Sends the queued packets. If the kernel refuses a packet, the refusal is the target's result (no route,
    /// forbidden), or the packet is retried (no memory), or the scan fails (other errors).
    fn flush(&mut self) -> Result<()> {
        while let Some((index, errno)) = self.sender.flush(&self.counts.calls) {
            match errno {
                libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM => {
                    add(&self.counts.shortages, 1);
                    thread::sleep(Duration::from_millis(1));
                    if self.stopped() {
                        return Ok(());
                    }
                    continue;
                }
                libc::EPERM => self.unreachable(index, Reason::NotPermitted),
                libc::EACCES => self.unreachable(index, Reason::AdminProhibited),
                libc::EHOSTUNREACH => self.unreachable(index, Reason::HostUnreach),
                libc::ENETUNREACH => self.unreachable(index, Reason::NetUnreach),
                errno => {
                    let error = io::Error::from_raw_os_error(errno);
                    return Err(Failure::system("--syn: sendmmsg", &error));
                }
            }
            self.sender.skip();
        }
        Ok(())
    }

    fn unreachable(&mut self, index: u64, reason: Reason) {
        if self.shared.take(index) {
            let record = Record::new(index, State::Filtered, reason);
            self.shared.tell(&mut self.outbox, self.counts, record);
        }
    }

    /// Reports the targets without an answer as filtered; reports nothing if the scan was stopped.
    pub fn tell_silent(&mut self) {
        if !self.stopped() {
            for index in 0..self.shared.job.plan.len() {
                if self.shared.take(index) {
                    let mut record = Record::new(index, State::Filtered, Reason::Timeout);
                    record.attempts = self.shared.job.retries + 1;
                    self.shared.tell(&mut self.outbox, self.counts, record);
                }
            }
        }
        self.outbox.flush();
    }
}
