// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of an attempt after a shortage, of a target, and of a ring's work (flight).

use std::io;

use super::{Flight, Phase, FEWEST_IN_FLIGHT, LONGEST_WAIT_NS, MOST_SHORTAGES, RECOVERY_NS};
use crate::counts::add;
use crate::deadlines::Kind;
use crate::engine::{Completion, Engine, Operation};
use crate::probe::Talk;
use crate::record::Record;
use crate::state::{Finding, Reason, State};
use crate::targets::Family;

impl<E: Engine> Flight<'_, E> {
    /// Handles a shortage of ports, memory or descriptors: the target is paused, and the maximum number in flight is
    /// reduced, unless it was reduced after the attempt began. After MOST_SHORTAGES pauses the target ends as an error.
    pub(super) fn put_off(&mut self, slot: usize, errno: i32) {
        add(&self.counts.shortages, 1);
        // Attempts that began before the slow-down meet the same shortage, which counts once.
        if self.slots[slot].started_ns >= self.slowed_ns {
            self.window = (self.in_flight / 2).max(FEWEST_IN_FLIGHT.min(self.slots.len()));
            self.slowed_ns = self.now_ns;
            self.grows_after_ns = self.now_ns + RECOVERY_NS;
            add(&self.counts.slowdowns, 1);
        }
        let taken = &mut self.slots[slot];
        taken.shortages += 1;
        if taken.shortages > MOST_SHORTAGES {
            return self.done(slot, State::Error, Reason::Shortage, errno, Finding::None);
        }
        taken.phase = Phase::Paused;
        self.deadlines.enter(slot, Kind::Paused, self.now_ns);
    }

    /// Finishes a target: counts it, reports it if its state is one of those to report, and frees its slot.
    pub(super) fn done(
        &mut self,
        slot: usize,
        state: State,
        reason: Reason,
        errno: i32,
        finding: Finding,
    ) {
        self.deadlines.leave(slot);
        self.counts.finished(state, reason, finding);
        let taken = &mut self.slots[slot];
        if self.settings.told[state as usize] {
            let mut record = Record::new(taken.index, state, reason);
            if matches!(reason, Reason::Other | Reason::Shortage) {
                record.errno = errno;
            }
            record.attempts = taken.attempts;
            record.finding = finding;
            record.rtt_us = taken.rtt_us;
            match (&mut self.scan, finding) {
                (
                    Some(scan),
                    Finding::Answer | Finding::Silent | Finding::Ended | Finding::Reset,
                )
                | (Some(scan), Finding::TooLong | Finding::Invalid | Finding::NoTls) => {
                    let (to, port) = self.cursor.target(taken.index);
                    let (input, output) = self.engine.memory(slot);
                    let talk = Talk {
                        slot,
                        to,
                        port,
                        input,
                        filled: &mut taken.filled,
                        output,
                    };
                    self.outbox.push(record, scan.answer(&talk));
                }
                _ => self.outbox.push(record, &[]),
            }
        }
        taken.phase = Phase::Idle;
        self.in_flight -= 1;
        let family = usize::from(taken.family == Some(Family::V6));
        self.idle[family].push(slot as u32);
        if taken.dirty && taken.family.is_some() {
            self.dirty.push(slot as u32);
        }
    }

    /// Cancels operations in flight, resets connections, and returns the indices of the unfinished targets that this
    /// ring took.
    /// - ended: buffer for completions; its contents are discarded.
    pub(super) fn finish(mut self, mut ended: Vec<Completion>) -> io::Result<Vec<u64>> {
        let busy = |phase| !matches!(phase, Phase::Idle | Phase::Paused);
        let mut waiting = 0;
        let mut left = Vec::new();
        for slot in 0..self.used {
            let phase = self.slots[slot].phase;
            if phase != Phase::Idle {
                left.push(self.slots[slot].index);
            }
            if busy(phase) {
                waiting += 1;
                self.engine.cancel(slot);
            }
        }
        while waiting > 0 {
            ended.clear();
            self.engine.wait(1, LONGEST_WAIT_NS, &mut ended)?;
            let gone = |completion: &&Completion| completion.operation != Operation::Spoilt;
            waiting -= ended.iter().filter(gone).count();
            if ended.is_empty() {
                // A connect that waited for its preparation was not pending yet, so the first cancellation missed it.
                for slot in (0..self.used).filter(|&slot| busy(self.slots[slot].phase)) {
                    self.engine.cancel(slot);
                }
            }
        }
        for slot in 0..self.used {
            if self.slots[slot].dirty && self.slots[slot].family.is_some() {
                self.engine.abort(slot);
            }
        }
        ended.clear();
        self.engine.wait(0, 0, &mut ended)?;
        left.extend(self.cursor.rest());
        self.outbox.flush();
        Ok(left)
    }
}
