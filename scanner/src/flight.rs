// SPDX-License-Identifier: GPL-2.0-or-later
//! A ring's work: assigns targets to slots, evaluates completions, and starts the next operation. Generic over the
//! engine, so that io_uring and epoll run the same code. A run allocates only its list of completions, at its start,
//! and its list of unfinished targets, at its end (tests/allocation.rs); in TLS probes rustls allocates, too.
//!
//! The maximum number in flight grows while all operations in flight are silent, and is halved when the machine lacks a
//! resource. A slot's socket is reused for target after target, unless it is spoilt or of the other address family.

mod end;
mod talk;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::counts::{add, Counts};
use crate::deadlines::{Deadlines, Kind};
use crate::engine::sockaddr::Sockaddr;
use crate::engine::{Before, Completion, Engine, Operation};
use crate::plan::Cursor;
use crate::probe::Scan;
use crate::rate::Rate;
use crate::record::Outbox;
use crate::state::{classify, Finding, Reason, State};
use crate::targets::Family;

/// Step by which the maximum number of targets in flight grows; also its first value.
const STEP: usize = 256;
/// Maximum number of completions, and of new targets, per round of a ring's loop.
const ROUND: usize = 512;
const FEWEST_IN_FLIGHT: usize = 8;
/// Pause before a target is retried after a shortage.
const PAUSE_NS: u64 = 100_000_000;
/// Maximum number of pauses of a target after shortages.
const MOST_SHORTAGES: u8 = 50;
/// Time after a shortage before the maximum number of targets in flight grows again.
const RECOVERY_NS: u64 = 1_000_000_000;
/// Maximum wait for a batch of completions while many targets are in flight. It doubles after each wait without a
/// completion, up to LONGEST_GATHER_NS.
const GATHER_NS: u64 = 500_000;
const LONGEST_GATHER_NS: u64 = 4_000_000;
/// Maximum wait for one completion while few targets are in flight.
const LONGEST_WAIT_NS: u64 = 50_000_000;

/// Settings of a ring, equal for all rings. In [`crate::run::Job`], `rate` is that of all rings together.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub slots: usize,
    pub connect_timeout_ns: u64,
    pub talk_timeout_ns: u64,
    /// Maximum number of attempts after the first, if a target does not answer.
    pub retries: u8,
    /// Connection attempts per second; 0 means no limit.
    pub rate: f64,
    /// True for each state that is reported individually, in the order of [`crate::state::STATES`]; all are counted.
    pub told: [bool; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Connecting,
    Sending { from: u32, to: u32 },
    Receiving,
    Paused,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    index: u64,
    started_ns: u64,
    phase: Phase,
    /// True if the operation timed out and was cancelled.
    expired: bool,
    family: Option<Family>,
    /// True if the socket was opened for the current attempt.
    fresh: bool,
    /// True if the socket has, or had begun, a connection, which must be dissolved before the next one.
    dirty: bool,
    attempts: u8,
    shortages: u8,
    rtt_us: u32,
    filled: usize,
}

pub struct Flight<'a, E> {
    engine: E,
    scan: Option<Box<dyn Scan>>,
    cursor: Cursor<'a>,
    settings: Settings,
    counts: &'a Counts,
    outbox: Outbox,
    stop: &'a AtomicBool,
    slots: Vec<Slot>,
    deadlines: Deadlines,
    rate: Rate,
    /// Idle slots by the family of their socket: IPv4 (or the socket is spoilt), IPv6.
    idle: [Vec<u32>; 2],
    /// Number of slots that were used at least once: slots 0 to `used` - 1.
    used: usize,
    /// Idle slots whose connection is to be dissolved (reset).
    dirty: Vec<u32>,
    in_flight: usize,
    window: usize,
    /// Time before which the window (maximum number of targets in flight) does not grow after a shortage.
    grows_after_ns: u64,
    slowed_ns: u64,
    /// Maximum time for completions to accumulate at present, from GATHER_NS to LONGEST_GATHER_NS.
    gather_ns: u64,
    /// True once the kernel has reported a refusal again at the next connect: sockets are then dissolved after
    /// refusals.
    keeps_refusals: bool,
    /// True if the plan has no more targets.
    exhausted: bool,
    clock: Instant,
    now_ns: u64,
}

impl<'a, E: Engine> Flight<'a, E> {
    pub fn new(
        engine: E,
        scan: Option<Box<dyn Scan>>,
        cursor: Cursor<'a>,
        settings: Settings,
        counts: &'a Counts,
        outbox: Outbox,
        stop: &'a AtomicBool,
    ) -> Flight<'a, E> {
        let slot = Slot {
            index: 0,
            started_ns: 0,
            phase: Phase::Idle,
            expired: false,
            family: None,
            fresh: false,
            dirty: false,
            attempts: 0,
            shortages: 0,
            rtt_us: 0,
            filled: 0,
        };
        let slots = settings.slots;
        let waits = [
            settings.connect_timeout_ns,
            settings.talk_timeout_ns,
            PAUSE_NS,
        ];
        Flight {
            engine,
            scan,
            cursor,
            counts,
            outbox,
            stop,
            slots: vec![slot; slots],
            deadlines: Deadlines::new(slots, waits),
            rate: Rate::new(settings.rate, 0),
            idle: [Vec::with_capacity(slots), Vec::with_capacity(slots)],
            used: 0,
            dirty: Vec::with_capacity(slots),
            in_flight: 0,
            window: slots.min(STEP),
            settings,
            grows_after_ns: 0,
            slowed_ns: 0,
            gather_ns: GATHER_NS,
            keeps_refusals: false,
            exhausted: false,
            clock: Instant::now(),
            now_ns: 0,
        }
    }

    /// Scans until the plan is done or a stop is requested. Returns the indices of the unfinished targets that this
    /// ring took.
    pub fn run(mut self) -> io::Result<Vec<u64>> {
        let mut ended: Vec<Completion> = Vec::with_capacity(ROUND);
        loop {
            self.now_ns = self.clock.elapsed().as_nanos() as u64;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.admit();
            if self.exhausted && self.in_flight == 0 {
                break;
            }
            let may_grow = self.may_grow();
            let (least, longest_ns) = match may_grow {
                true => (0, 0),
                false => self.patience(),
            };
            if longest_ns > GATHER_NS {
                self.outbox.flush();
            }
            ended.clear();
            self.engine.wait(least, longest_ns, &mut ended)?;
            if ended.is_empty() && may_grow {
                self.window = (self.window + STEP).min(self.slots.len());
            }
            // If all targets are silent, longer waits suffice.
            self.gather_ns = match ended.is_empty() {
                true => (2 * self.gather_ns).min(LONGEST_GATHER_NS),
                false => GATHER_NS,
            };
            self.now_ns = self.clock.elapsed().as_nanos() as u64;
            for completion in &ended {
                self.ended(*completion);
            }
            // This thread may have been blocked by the reader of the results: answers that arrived in time are
            // processed before deadlines are checked.
            if ended.len() + 1 < ROUND {
                self.expire();
            }
            self.counts
                .calls
                .store(self.engine.calls(), Ordering::Relaxed);
            self.counts
                .overflows
                .store(self.engine.overflows(), Ordering::Relaxed);
        }
        self.finish(ended)
    }

    fn may_grow(&self) -> bool {
        !self.exhausted
            && self.in_flight == self.window
            && self.window < self.slots.len()
            && self.now_ns >= self.grows_after_ns
    }

    /// Returns the number of completions to wait for, and the maximum wait.
    fn patience(&mut self) -> (usize, u64) {
        let mut until = self.now_ns + LONGEST_WAIT_NS;
        let least = (self.in_flight / 8).clamp(1, 64);
        if least > 1 {
            until = self.now_ns + self.gather_ns;
        }
        if let Some(next) = self.deadlines.next_ns() {
            until = until.min(next);
        }
        if let Some(next) = self
            .rate
            .next_ns()
            .filter(|_| !self.exhausted && self.in_flight < self.window)
        {
            until = until.min(next);
        }
        // A wait of 0 would not wait: due work is done in the next round.
        (least, until.saturating_sub(self.now_ns).max(20_000))
    }

    /// Assigns targets to free slots, as many as the window and the rate allow.
    fn admit(&mut self) {
        let mut allowed = self.rate.allowed(self.now_ns).min(ROUND as u64);
        while !self.exhausted && allowed > 0 && self.in_flight < self.window {
            let room = allowed.min((self.window - self.in_flight) as u64);
            let Some(index) = self.cursor.next_of(room) else {
                self.exhausted = true;
                break;
            };
            let (address, port) = self.cursor.target(index);
            let to = Sockaddr::new(address, port);
            let slot = self.free_slot(to.family());
            self.in_flight += 1;
            self.rate.take(1);
            allowed -= 1;
            let taken = &mut self.slots[slot];
            taken.index = index;
            taken.attempts = 1;
            taken.shortages = 0;
            taken.rtt_us = 0;
            self.connect(slot, &to);
        }
        self.dissolve();
    }

    /// Returns a free slot, if possible with a socket of this family. There is always a free slot, since `window`, the
    /// limit of the number in flight, is at most the number of slots.
    fn free_slot(&mut self, family: Family) -> usize {
        let (same, other) = match family {
            Family::V4 => (0, 1),
            Family::V6 => (1, 0),
        };
        if let Some(slot) = self.idle[same].pop() {
            return slot as usize;
        }
        if self.used < self.slots.len() {
            self.used += 1;
            return self.used - 1;
        }
        self.idle[other]
            .pop()
            .expect("fewer are in flight than there are slots") as usize
    }

    fn connect(&mut self, slot: usize, to: &Sockaddr) {
        let taken = &mut self.slots[slot];
        let family = to.family();
        let before = match taken.family {
            Some(same) if same == family && taken.dirty => Before::Abort,
            Some(same) if same == family => Before::Nothing,
            _ => Before::Open(family),
        };
        taken.family = Some(family);
        taken.fresh = matches!(before, Before::Open(_));
        taken.dirty = true;
        taken.expired = false;
        taken.filled = 0;
        taken.started_ns = self.now_ns;
        taken.phase = Phase::Connecting;
        self.engine.connect(slot, to, before);
        self.deadlines.enter(slot, Kind::Connecting, self.now_ns);
    }

    /// Connects to the slot's target again, which counts against the rate.
    fn connect_again(&mut self, slot: usize) {
        self.rate.take(1);
        let (address, port) = self.cursor.target(self.slots[slot].index);
        self.connect(slot, &Sockaddr::new(address, port));
    }

    /// Resets connections of finished targets in idle slots.
    fn dissolve(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            let left = &mut self.slots[slot as usize];
            if left.phase == Phase::Idle && left.dirty {
                left.dirty = false;
                self.engine.abort(slot as usize);
            }
        }
    }

    /// Cancels timed-out operations, and retries paused targets.
    fn expire(&mut self) {
        for kind in [Kind::Connecting, Kind::Talking] {
            while let Some(slot) = self.deadlines.expired(kind, self.now_ns) {
                self.slots[slot].expired = true;
                self.engine.cancel(slot);
                // An operation that does not end is cancelled again.
                self.deadlines.enter(slot, kind, self.now_ns);
            }
        }
        while let Some(slot) = self.deadlines.expired(Kind::Paused, self.now_ns) {
            self.connect_again(slot);
        }
    }

    fn ended(&mut self, completion: Completion) {
        let slot = completion.slot as usize;
        match completion.operation {
            Operation::Prepare => self.unprepared(slot, -completion.result),
            // The slot's next connect opens a new socket.
            Operation::Spoilt => self.slots[slot].family = None,
            Operation::Connect => self.connected(slot, -completion.result),
            Operation::Send => self.sent(slot, completion.result),
            Operation::Receive => self.received(slot, completion.result),
        }
    }

    /// Handles a failed preparation of a connect as a shortage (see `put_off`): the target is retried later with a new
    /// socket.
    fn unprepared(&mut self, slot: usize, errno: i32) {
        self.deadlines.leave(slot);
        self.slots[slot].family = None;
        self.put_off(slot, errno);
    }

    fn connected(&mut self, slot: usize, errno: i32) {
        let taken = &mut self.slots[slot];
        if taken.phase != Phase::Connecting {
            return;
        }
        let waited_us = self.now_ns.saturating_sub(taken.started_ns) / 1000;
        taken.rtt_us = waited_us.min(u64::from(u32::MAX)) as u32;
        let errno = match errno {
            libc::ECANCELED if taken.expired => {
                taken.dirty = false;
                libc::ETIMEDOUT
            }
            libc::ECANCELED | libc::EINTR => libc::EAGAIN,
            errno => errno,
        };
        if errno == libc::ECONNABORTED && !taken.fresh {
            // Before Linux 6.3 a connect may report the previous refusal: from now on sockets are dissolved after
            // refusals.
            self.keeps_refusals = true;
            return self.connect_again(slot);
        }
        if matches!(errno, libc::EALREADY | libc::EISCONN) && !taken.fresh {
            // The socket still holds an earlier error: retry with a new socket.
            taken.family = None;
            return self.connect_again(slot);
        }
        match classify(errno) {
            None => self.put_off(slot, errno),
            Some((State::Open, _)) => self.opened(slot, errno),
            Some((State::Filtered, Reason::Timeout)) if taken.attempts <= self.settings.retries => {
                taken.attempts += 1;
                add(&self.counts.retries, 1);
                self.connect_again(slot);
            }
            Some((state, reason)) => {
                // A refusal leaves the socket as new, unless the kernel keeps refusals. After other results it stays
                // dirty.
                taken.dirty &= errno != libc::ECONNREFUSED || self.keeps_refusals;
                self.done(slot, state, reason, errno, Finding::None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::ports::Ports;
    use crate::record::boxes;
    use crate::targets::set::Set;
    use crate::targets::Range;

    /// Engine whose operations never complete.
    struct Silent;

    impl Engine for Silent {
        fn connect(&mut self, _: usize, _: &Sockaddr, _: Before) {}
        fn abort(&mut self, _: usize) {}
        fn receive(&mut self, _: usize, _: usize) {}
        fn send(&mut self, _: usize, _: usize, _: usize) {}
        fn cancel(&mut self, _: usize) {}

        fn memory(&mut self, _: usize) -> (&mut [u8], &mut [u8]) {
            (&mut [], &mut [])
        }

        fn wait(&mut self, _: usize, _: u64, _: &mut Vec<Completion>) -> io::Result<()> {
            Ok(())
        }

        fn calls(&self) -> u64 {
            0
        }

        fn overflows(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_target_begins_without_the_round_trip_of_the_one_before() {
        let (first, last) = (0x7f00_0001, 0x7f00_0002);
        let range = Range {
            family: Family::V4,
            scope: 0,
            first,
            last,
        };
        let targets = Set::new([range]).unwrap();
        let plan = Plan::new(targets, Ports::parse("9").unwrap(), Some(1), 1);
        let (mut outboxes, _inbox) = boxes(1);
        let (counts, stop) = (Counts::default(), AtomicBool::new(false));
        let settings = Settings {
            slots: 1,
            connect_timeout_ns: 1,
            talk_timeout_ns: 1,
            retries: 0,
            rate: 0.0,
            told: [true; 4],
        };
        let outbox = outboxes.pop().unwrap();
        let cursor = plan.cursor();
        let mut flight = Flight::new(Silent, None, cursor, settings, &counts, outbox, &stop);
        flight.admit();
        flight.now_ns = 5_000_000;
        flight.connected(0, libc::ECONNREFUSED);
        assert_eq!((flight.in_flight, flight.slots[0].rtt_us), (0, 5000));
        flight.admit();
        assert_eq!((flight.in_flight, flight.slots[0].rtt_us), (1, 0));
    }
}
