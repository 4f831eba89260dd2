// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversations on open ports: the probe decides the steps, and the engine transfers the bytes.

use super::{Flight, Phase};
use crate::deadlines::Kind;
use crate::engine::Engine;
use crate::probe::{Scan, Step, Talk};
use crate::state::{Finding, Reason, State};

impl<E: Engine> Flight<'_, E> {
    pub(super) fn opened(&mut self, slot: usize, errno: i32) {
        let finding = match (&self.scan, errno) {
            (None, _) => Finding::None,
            (Some(_), 0) => Finding::Answer,
            (Some(_), _) => Finding::Reset,
        };
        if finding != Finding::Answer {
            return self.done(slot, State::Open, Reason::SynAck, 0, finding);
        }
        self.slots[slot].expired = false;
        self.deadlines.enter(slot, Kind::Talking, self.now_ns);
        self.talk(slot, |scan, talk| scan.opened(talk));
    }

    pub(super) fn sent(&mut self, slot: usize, result: i32) {
        let Phase::Sending { from, to } = self.slots[slot].phase else {
            return;
        };
        match result {
            1.. if (result as u32) < to - from => self.send(slot, from + result as u32, to),
            1.. => self.receive(slot),
            _ => self.fell_silent(slot, result),
        }
    }

    pub(super) fn received(&mut self, slot: usize, result: i32) {
        match result {
            1.. => {
                self.slots[slot].filled += result as usize;
                self.talk(slot, |scan, talk| scan.received(talk));
            }
            _ => self.fell_silent(slot, result),
        }
    }

    /// Handles the end of a conversation's transfers.
    /// - result: 0 if the peer has closed, or -errno.
    fn fell_silent(&mut self, slot: usize, result: i32) {
        let why = match -result {
            0 => Finding::Ended,
            _ if self.slots[slot].expired => Finding::Silent,
            _ => Finding::Reset,
        };
        self.talk(slot, |scan, talk| Step::Done(scan.ended(talk, why)));
    }

    /// Lends the slot's memory to the probe, and executes the step that the probe returns.
    /// - say: calls a function of the probe.
    fn talk(&mut self, slot: usize, say: impl FnOnce(&mut dyn Scan, &mut Talk) -> Step) {
        let Some(scan) = &mut self.scan else { return };
        let taken = &mut self.slots[slot];
        let (to, port) = self.cursor.target(taken.index);
        let (input, output) = self.engine.memory(slot);
        let mut talk = Talk {
            slot,
            to,
            port,
            input,
            filled: &mut taken.filled,
            output,
        };
        match say(scan.as_mut(), &mut talk) {
            // The time-out ends the conversation even if bytes arrived meanwhile.
            Step::Receive | Step::Send(_) if taken.expired => {
                self.fell_silent(slot, -libc::ECANCELED)
            }
            Step::Receive => self.receive(slot),
            Step::Send(bytes) => self.send(slot, 0, bytes as u32),
            Step::Done(finding) => self.done(slot, State::Open, Reason::SynAck, 0, finding),
        }
    }

    fn receive(&mut self, slot: usize) {
        self.slots[slot].phase = Phase::Receiving;
        self.engine.receive(slot, self.slots[slot].filled);
    }

    fn send(&mut self, slot: usize, from: u32, to: u32) {
        self.slots[slot].phase = Phase::Sending { from, to };
        self.engine.send(slot, from as usize, to as usize);
    }
}
