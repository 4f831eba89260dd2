// SPDX-License-Identifier: GPL-2.0-or-later
//! Scan by bare SYNs: one thread sends, one listens, and no connection is established. The kernel resets peers that
//! answer SYN-ACK, since the local port has no listener; a socket bound to the port keeps other programs from using it.
//!
//! SYNs are not stored: the sequence number is a keyed hash of the target's address and both ports, so an answer that
//! acknowledges it belongs to a SYN of this scan. One byte per target records whether it has answered, so that the
//! other targets can be asked again, also by a later scan.

mod ask;
mod capture;
pub mod frame;
mod hear;
pub mod runs;
pub mod segment;
mod send;
mod source;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use crate::counts::{Counts, Sum};
use crate::failure::{Failure, Result};
use crate::plan::Plan;
use crate::record::{boxes, Batch, Outbox, Record};
use crate::state::Finding;
use crate::targets::set::Set;
use ask::Asker;
use capture::Capture;
use frame::Cookies;
use runs::Runs;
use send::Sender;
use source::Sources;

/// Maximum number of targets, which is the table's size in bytes; scans by connections have no such limit.
const MOST_TARGETS: u64 = 1 << 31;
/// Interval between two readings of the counts.
const WATCH: Duration = Duration::from_millis(5);

/// State of a target: not asked yet by this scan.
const LEFT: u8 = 0;
/// State of a target: asked, without an answer so far.
const ASKED: u8 = 1;
/// State of a target: answered, or no answer is awaited.
const ANSWERED: u8 = 2;

pub struct Job<'a> {
    pub plan: &'a Plan,
    /// Unanswered targets of an interrupted scan; None means all targets.
    pub unanswered: Option<&'a Runs>,
    pub timeout: Duration,
    pub retries: u8,
    pub rate: f64,
    pub told: [bool; 4],
    pub stop: &'a AtomicBool,
}

/// State shared by the sending and the listening thread.
struct Shared<'a> {
    job: &'a Job<'a>,
    cookies: Cookies,
    port: u16,
    /// State of each target (LEFT, ASKED or ANSWERED), by its index in the plan.
    answered: Vec<AtomicU8>,
    /// True once the sending thread has ended: the time for the last answers is over, or the scan was stopped or
    /// failed.
    over: AtomicBool,
}

/// Drop guard that notifies the listener when the sending thread ends, even by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Shared<'_> {
    fn of(&self, index: u64) -> u8 {
        self.answered[index as usize].load(Ordering::Relaxed)
    }

    fn asked(&self, index: u64) {
        // An answer to an earlier question may arrive meanwhile, and is kept.
        let _ = self.answered[index as usize].compare_exchange(
            LEFT,
            ASKED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Marks a target as answered. Returns true if this is its first answer.
    fn take(&self, index: u64) -> bool {
        self.answered[index as usize].swap(ANSWERED, Ordering::Relaxed) != ANSWERED
    }

    fn left(&self) -> impl Iterator<Item = bool> + '_ {
        let of = |one: &AtomicU8| one.load(Ordering::Relaxed) != ANSWERED;
        self.answered.iter().map(of)
    }

    fn any_left(&self) -> bool {
        self.left().any(|is_left| is_left)
    }

    fn tell(&self, outbox: &mut Outbox, counts: &Counts, record: Record) {
        counts.finished(record.state, record.reason, Finding::None);
        if self.job.told[record.state as usize] {
            outbox.push(record, &[]);
        }
    }
}

/// Returns the initial states of all targets.
fn states(job: &Job) -> Vec<AtomicU8> {
    let len = job.plan.len();
    let Some(unanswered) = job.unanswered else {
        return (0..len).map(|_| AtomicU8::new(LEFT)).collect();
    };
    let states: Vec<AtomicU8> = (0..len).map(|_| AtomicU8::new(ANSWERED)).collect();
    // The runs were validated when the plan was made.
    unanswered.each(len, |run| {
        for state in &states[run.start as usize..run.end as usize] {
            state.store(LEFT, Ordering::Relaxed);
        }
    });
    states
}

/// Fails if there are too many targets, or if an answer could belong to two of them.
pub fn check(targets: &Set, ports: u64) -> Result<()> {
    if targets.len() * ports > MOST_TARGETS {
        return Err(Failure::usage(format!(
            "--syn asks at most {MOST_TARGETS} targets: name fewer, or leave --syn out"
        )));
    }
    match on_two_interfaces(targets) {
        None => Ok(()),
        Some(ip) => Err(Failure::usage(format!(
            "--syn: {ip} is asked on two interfaces: ask one at a time"
        ))),
    }
}

/// Returns an address that is asked on two interfaces, if any: its answers would be ambiguous.
fn on_two_interfaces(targets: &Set) -> Option<IpAddr> {
    let mut ranges = targets.ranges().to_vec();
    ranges.sort_unstable_by_key(|range| (range.family, range.first));
    // Ranges of one interface do not overlap. If any two ranges overlap, so do two neighbours.
    let overlap = ranges.windows(2).find(|two| {
        let (one, next) = (&two[0], &two[1]);
        one.family == next.family && next.first <= one.last
    })?;
    Some(overlap[1].address(overlap[1].first).ip)
}

/// Runs the scan. Returns the counts and, if it was stopped, the targets without an answer.
/// - take: receives the results, on a separate thread.
/// - watch: called every 5 ms with the counts.
pub fn run(
    job: &Job,
    take: impl FnMut(&Batch) -> io::Result<()> + Send,
    watch: impl Fn(&Sum),
) -> Result<(Sum, Option<Runs>)> {
    let sender = Sender::new().map_err(refused)?;
    let sources =
        Sources::new(&job.plan.targets).map_err(|error| Failure::system("no route", &error))?;
    let shared = Shared {
        job,
        cookies: Cookies::new(),
        port: sender.port(),
        answered: states(job),
        over: AtomicBool::new(false),
    };
    let capture = Capture::new(shared.port).map_err(refused)?;
    let counts = [Counts::default(), Counts::default()];
    let (mut outboxes, inbox) = boxes(2);
    let (to_sender, to_listener) = (outboxes.remove(0), outboxes.remove(0));
    let (shared, counts_of) = (&shared, &counts);
    let ended = thread::scope(|scope| {
        // A failed thread stops the others.
        let writer = scope.spawn(move || stopping(job, inbox.each(take)));
        let listener = scope.spawn(move || {
            let heard = hear::listen(shared, capture, &counts_of[1], to_listener);
            stopping(job, heard)
        });
        let asker = scope.spawn(move || {
            let _over = Over(&shared.over);
            let mut asker = Asker {
                shared,
                sender,
                sources,
                counts: &counts_of[0],
                outbox: to_sender,
            };
            asker.run().map(|()| asker)
        });
        while !(asker.is_finished() && listener.is_finished()) {
            watch(&Sum::of(counts_of));
            thread::sleep(WATCH);
        }
        listener
            .join()
            .expect("the listener does not panic")
            .map_err(|error| Failure::system("the capture ring", &error))?;
        let mut asker = asker.join().expect("the sender does not panic")?;
        asker.tell_silent();
        drop(asker);
        match writer.join().expect("the writer does not panic") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::system("the results cannot be written", &error))
            }
            _ => Ok(()),
        }
    });
    ended?;
    let left = shared.any_left().then(|| Runs::of(shared.left()));
    Ok((Sum::of(&counts), left))
}

fn stopping<T, E>(job: &Job, result: std::result::Result<T, E>) -> std::result::Result<T, E> {
    if result.is_err() {
        job.stop.store(true, Ordering::Relaxed);
    }
    result
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::privilege(
            "--syn needs a raw socket: run as root, or setcap cap_net_raw+ep on this program; or leave --syn out",
        ),
        _ => Failure::system("--syn: a raw socket", &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{Family, Range};

    fn range(scope: u32, first: u128, last: u128) -> Range {
        Range {
            family: Family::V6,
            scope,
            first,
            last,
        }
    }

    #[test]
    fn an_address_is_asked_on_one_interface() {
        let v4 = Range {
            family: Family::V4,
            ..range(0, 0, 100)
        };
        let check = |ranges: &[Range]| check(&Set::new(ranges.iter().copied()).unwrap(), 1);
        for ranges in [
            &[v4, range(2, 1, 9), range(3, 10, 19), range(2, 20, 29)][..],
            &[range(2, 1, 9), range(2, 5, 19)],
        ] {
            assert_eq!(check(ranges), Ok(()));
        }
        for ranges in [
            &[range(2, 1, 1), range(3, 1, 1)][..],
            &[v4, range(2, 0, 9), range(3, 1, 19)],
            // The check also fails if one of the two interfaces is that of the route (scope 0).
            &[range(0, 0, 99), range(2, 1, 1), range(3, 70, 70)],
        ] {
            let refused = check(ranges).unwrap_err().text;
            assert_eq!(
                refused,
                "--syn: ::1 is asked on two interfaces: ask one at a time"
            );
        }
    }

    #[test]
    fn a_panic_of_the_sender_ends_the_listener() {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let _over = Over(&over);
                assert!(over.load(Ordering::Relaxed), "the sender has not ended yet");
            });
            assert!(sender.join().is_err());
        });
        assert!(over.load(Ordering::Relaxed));
    }

    #[test]
    fn more_targets_than_have_room_are_refused() {
        let targets = Set::new([range(0, 0, 0xffff)]).unwrap();
        assert_eq!(check(&targets, 0x8000), Ok(()));
        let refused = check(&targets, 0x8001).unwrap_err();
        assert!(refused.text.contains("at most"), "{refused}");
    }
}
