// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! Reading of a worker's ledger from the worker's counters and the kernel's figures, while packets may arrive.

use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};

use crate::base::log;
use crate::queue;
use crate::worker::stats::{self, Ledger, StatsReading};
use crate::worker::types::Shared;

/// Returns true if packets that the guard answered may still be in the socket: the worker has not received the last of
/// them. (It receives packets in the order of their ids.)
fn is_behind(shared: &Shared) -> bool {
    let stalled_to = shared.stalled_to.load(Ordering::Relaxed);
    stalled_to.wrapping_sub(shared.last_id.load(Ordering::Relaxed)) as i32 > 0
}

/// Reads the worker's counters and the kernel's counters of its queue, in the order that StatsReading requires. The
/// second value is the error if the kernel's counters could not be read.
fn take_reading(shared: &Shared) -> (StatsReading, Result<(), Errno>) {
    let received_before = stats::received(&shared.stats);
    let figures = queue::proc::figures(shared.settings.number);
    let reading = StatsReading {
        received_before,
        figures: figures.unwrap_or_default(),
        known: figures.is_ok(),
        after: stats::snapshot(&shared.stats),
        stalled: shared.stalled.load(Ordering::Relaxed),
        unreceived: is_behind(shared),
    };
    (reading, figures.map(drop))
}

/// Returns a measure of the packets that a ledger does not explain: the sum of its difference, of unseen packets (which
/// the difference may include), and at exit of packets that it counts twice. It counts a packet twice if the kernel
/// assigned the packet's id while the kernel's counters were read.
fn unexplained(ledger: &Ledger, running: bool) -> u64 {
    let received = ledger.stats.received + ledger.stats.without_id;
    let seen = received + ledger.user_drop + ledger.waiting + ledger.unseen;
    let twice = match running {
        true => 0,
        false => seen.saturating_sub(ledger.offered),
    };
    ledger.difference + ledger.unseen + twice
}

/// Pauses, so that the kernel can finish handling a packet: the thread that handles it may have lost its CPU.
fn pause_between_readings() {
    let pause = TimeSpec::nanoseconds(stats::PAUSE_NS as i64);
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::empty(),
        &pause,
    );
}

/// Returns the ledger of a worker from the reading with the fewest unexplained packets, of up to stats::READINGS_MAX
/// readings. Warns if no reading of /proc succeeds.
/// - running: true if the worker's thread runs: a batch may be in flight.
pub fn ledger(shared: &Shared, running: bool) -> Ledger {
    let settings = &shared.settings;
    let in_flight = if running { settings.batch.into() } else { 0 };
    let (mut taken, mut best) = (Ledger::default(), None::<Ledger>);
    let mut result = Ok(());
    // The kernel prints the list of queues in pages. If another queue is removed between two pages, this queue can be
    // missing in the list. Therefore a missing queue is read again, too.
    for i in 0..stats::READINGS_MAX {
        if i > 0 && !running {
            pause_between_readings();
        }
        let reading;
        (reading, result) = take_reading(shared);
        taken = stats::ledger_make(&reading, settings.number, in_flight, settings.fail_open);
        let least = best
            .as_ref()
            .map_or(u64::MAX, |best| unexplained(best, running));
        if result.is_ok() && unexplained(&taken, running) < least {
            best = Some(taken.clone());
        }
        if best
            .as_ref()
            .is_some_and(|best| unexplained(best, running) == 0)
        {
            break;
        }
    }
    if let (None, Err(error)) = (&best, result) {
        log::warn(format_args!(
            "{}: {}: the ledger lacks the kernel's figures",
            queue::proc::QUEUES,
            log::strerror(error)
        ));
    }
    best.unwrap_or(taken)
}
