// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a worker, and the arithmetic of the loss ledger.
//!
//! Theory of operation: each worker writes its own counters with a relaxed load and store. No other thread writes them,
//! so that no atomic addition is needed. Readers load them relaxed. For each packet the kernel increments id_sequence
//! first, and queue_total or user_dropped last. A reading of the kernel's figures between these two steps has too few
//! or too many packets; the next reading corrects it. Therefore the ledger of a queue that receives packets is read up
//! to READINGS_MAX times, until it reconciles (worker::ledger).

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::named;
use crate::engine::teach;
use crate::packet;
use crate::packet::verdict;
use crate::queue::proc::QueueFigures;
pub use crate::spec::counter::{Stats, STATS_ALIGN};
use crate::worker::{elements, reject};

/// Maximum number of readings of a queue's counters in /proc before a difference is reported.
pub const READINGS_MAX: u32 = 16;
/// Pause between readings at exit, in nanoseconds.
pub const PAUSE_NS: u64 = 2_000_000;
/// Maximum number of packets by which the kernel's 32-bit count (offered - user_drop) may be below the worker's count
/// (received). A larger difference means that the kernel's count has wrapped, and is above the worker's count.
pub const BEHIND_MAX: u32 = 1 << 24;

/// Counters of a running worker; other threads may read them.
pub type LiveStats = Stats<AtomicU64>;

const _: () = assert!(
    align_of::<LiveStats>() == STATS_ALIGN,
    "no other data shares its cache lines"
);
const _: () = assert!(
    size_of::<LiveStats>() % STATS_ALIGN == 0,
    "nor the last one"
);
const _: () = assert!(
    offset_of!(Stats, received) < offset_of!(Stats, verdicts),
    "received is read before verdicts"
);
// The lists of spec/counters.toml must have the lengths of the enums by which they are indexed.
const _: fn(&Stats) = |stats| {
    let _: &[u64; verdict::COUNT] = &stats.verdicts;
    let _: &[u64; packet::STATUS_COUNT] = &stats.malformed;
    let _: &[u64; reject::RESULT_COUNT] = &stats.replies;
    let _: &[u64; named::RESULT_COUNT] = &stats.connections;
    let _: &[u64; teach::RESULT_COUNT] = &stats.answers;
    let _: &[u64; elements::RESULT_COUNT] = &stats.elements;
};

/// Loads a counter of a running worker.
pub fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Adds an amount to a counter that only the calling thread writes.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.store(get(counter).wrapping_add(amount), Ordering::Relaxed);
}

/// Returns the number of packets received so far, with or without a readable id. The kernel's count of packets is
/// compared with it.
pub fn received(live: &LiveStats) -> u64 {
    get(&live.received) + get(&live.without_id)
}

/// Returns the number of packets answered so far.
pub fn decided(live: &LiveStats) -> u64 {
    live.verdicts.iter().map(get).sum()
}

/// Returns a copy of the counters of a running worker.
pub fn snapshot(live: &LiveStats) -> Stats {
    let mut snapshot = Stats::default();
    for (to, from) in snapshot.words_mut().zip(live.words()) {
        *to = get(from);
    }
    snapshot
}

/// One reading of a worker's counters and of the kernel's counters of its queue. The values are read in the order of
/// the fields.
#[derive(Clone, Debug, Default)]
pub struct StatsReading {
    /// Result of `received` from before the kernel's figures were read.
    pub received_before: u64,
    /// The kernel's counters of the queue, from /proc.
    pub figures: QueueFigures,
    /// True if the kernel's counters could be read.
    pub known: bool,
    /// Counters of the worker after the kernel's figures were read.
    pub after: Stats,
    /// Number of packets that the guard answered (stalled packets).
    pub stalled: u64,
    /// True if some of the stalled packets may still be in the socket.
    pub unreceived: bool,
}

/// Loss ledger of a queue, or the sum of several ledgers: received packets, verdicts and losses, which must add up. It
/// includes all packets to which the kernel has assigned an id, and those that it has dropped because the queue was
/// full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Number of the queue; meaningless in a sum.
    pub number: u16,
    pub stats: Stats,
    /// True if the kernel's counters of the queue (in a sum: of all queues) could be read. Otherwise a queue's ledger
    /// has 0 in the fields after `known`, except stalled and difference.
    pub known: bool,
    /// Number of packets that the kernel offered: its id_sequence, extended to 64 bits.
    pub offered: u64,
    /// Number of packets in the kernel's queue: not yet received, or without a verdict.
    pub waiting: u64,
    /// Number of packets that the kernel dropped because the queue was full.
    pub queue_full: u64,
    /// Number of packets that the kernel dropped because the socket's buffer was full.
    pub user_drop: u64,
    /// Number of packets that were offered, but neither received, dropped, stalled nor waiting.
    pub unseen: u64,
    /// Number of packets answered by the guard, whether or not the worker received them later.
    pub stalled: u64,
    /// Number of packets lost for a known reason: queue_full + user_drop. They don't count as difference.
    pub lost: u64,
    /// Number of packets for which the ledger does not account: received but not answered, answered but not received,
    /// received but not offered, or unseen (without fail-open).
    pub difference: u64,
    /// True if the kernel's counters could be read and difference is 0.
    pub reconciled: bool,
}

/// Returns how far a 32-bit counter is ahead of the lower 32 bits of `near`. A negative result means that the counter
/// is behind, by at most BEHIND_MAX. Every other difference counts as positive, because fail-open may leave most of
/// 2^32 packets unseen.
fn ahead_of(count: u32, near: u64) -> i64 {
    i64::from(count.wrapping_sub(near as u32).wrapping_add(BEHIND_MAX)) - i64::from(BEHIND_MAX)
}

fn sum_verdicts(stats: &Stats) -> u64 {
    stats.verdicts.iter().sum()
}

/// Returns the number of packets that were received and not answered, or answered and not received.
/// - in_flight: number of received packets that may still be without a verdict. If it is not 0, the worker runs, and
///   packets that were answered and not received don't count.
fn difference_of_verdicts(stats: &Stats, in_flight: u64) -> u64 {
    let verdicts = sum_verdicts(stats);
    if stats.received > verdicts + in_flight {
        return stats.received - verdicts - in_flight;
    }
    // A running worker may have answered more packets since received was read. A worker that has ended can't have done
    // so.
    if verdicts > stats.received && in_flight == 0 {
        verdicts - stats.received
    } else {
        0
    }
}

/// Fills in the fields of the ledger that depend on the kernel's counters.
fn add_figures(reading: &StatsReading, fail_open: bool, ledger: &mut Ledger) {
    let kernel = &reading.figures;
    let received = reading.after.received + reading.after.without_id;
    // Number of packets that the kernel sent to the socket, or let pass by fail-open.
    let meant = kernel.offered.wrapping_sub(kernel.user_drop);
    let ahead = ahead_of(meant, received);
    let ahead_before = ahead_of(meant, reading.received_before);
    let known = received + u64::from(kernel.user_drop);
    let missed = u64::try_from(ahead - i64::from(kernel.waiting)).unwrap_or(0);
    // A kernel whose packet table is full (hash insert failed, Linux 6.18.x) drops packets that already have an id. It
    // counts them as queue_full, like packets that it drops without an id. Therefore the two kinds can't be
    // distinguished.
    let excused = u64::from(kernel.queue_full)
        + match reading.unreceived {
            true => reading.stalled,
            false => 0,
        };

    // A count that is lower by more than all known packets is a defect, not a wrap. It is shown unchanged.
    ledger.offered = known
        .checked_add_signed(ahead)
        .unwrap_or(u64::from(kernel.offered));
    ledger.waiting = u64::from(kernel.waiting);
    ledger.queue_full = u64::from(kernel.queue_full);
    ledger.user_drop = u64::from(kernel.user_drop);
    ledger.unseen = missed.saturating_sub(excused);
    ledger.lost = u64::from(kernel.queue_full) + u64::from(kernel.user_drop);
    if !fail_open {
        ledger.difference += ledger.unseen;
    }
    if ahead_before < 0 {
        ledger.difference += ahead_before.unsigned_abs();
    }
}

/// Computes the ledger of one queue.
/// - in_flight: maximum number of received packets without a verdict: the batch of a running
///   worker, 0 at exit.
/// - fail_open: true if the kernel accepts packets when the queue is full. Unseen packets then don't count as
///   difference.
/// - reading.unreceived: true if up to reading.stalled packets may be missing because they are still in the socket.
pub fn ledger_make(reading: &StatsReading, number: u16, in_flight: u64, fail_open: bool) -> Ledger {
    let mut ledger = Ledger {
        number,
        stats: reading.after.clone(),
        known: reading.known,
        stalled: reading.stalled,
        difference: difference_of_verdicts(&reading.after, in_flight),
        ..Ledger::default()
    };
    if reading.known {
        add_figures(reading, fail_open, &mut ledger);
    }
    ledger.reconciled = ledger.known && ledger.difference == 0;
    ledger
}

/// Adds a queue's ledger to a sum. The sum's initial value is `Ledger { known: true, reconciled: true, .. }`.
pub fn ledger_add(sum: &mut Ledger, ledger: &Ledger) {
    for (to, from) in sum.stats.words_mut().zip(ledger.stats.words()) {
        *to += from;
    }
    sum.known = sum.known && ledger.known;
    sum.offered += ledger.offered;
    sum.waiting += ledger.waiting;
    sum.queue_full += ledger.queue_full;
    sum.user_drop += ledger.user_drop;
    sum.unseen += ledger.unseen;
    sum.stalled += ledger.stalled;
    sum.lost += ledger.lost;
    sum.difference += ledger.difference;
    sum.reconciled = sum.reconciled && ledger.reconciled;
}
