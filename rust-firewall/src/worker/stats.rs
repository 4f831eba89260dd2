// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters, and the arithmetic of the loss ledger.
//!
//! Theory of operation: each worker writes its own counters, with a relaxed load and store (no other
//! thread writes them, so no atomic addition is needed); readers load them relaxed. The kernel
//! increments id_sequence first and queue_total or user_dropped last, and lets itself be read
//! meanwhile, so a reader that comes between them sees too few or too many, which is gone with the
//! next reading: who wants a ledger of a queue that packets come to reads it up to READINGS_MAX
//! times until it reconciles (worker::ledger).

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::named;
use crate::engine::teach;
use crate::packet;
use crate::packet::verdict;
use crate::queue::proc::QueueFigures;
pub use crate::spec::counter::{Stats, STATS_ALIGN};
use crate::worker::reject;

/// How often a queue's figures are read before a difference is believed.
pub const READINGS_MAX: u32 = 16;
/// Between readings at exit, when nobody waits for them.
pub const PAUSE_NS: u64 = 2_000_000;
/// Distance by which (offered - user_drop) may lie behind received and still be told from a 32-bit
/// wrap.
pub const BEHIND_MAX: u32 = 1 << 24;

/// The counters of a running worker.
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
// The lists of spec/counters.toml have the lengths of the enums that they are indexed by.
const _: fn(&Stats) = |stats| {
    let _: &[u64; verdict::COUNT] = &stats.verdicts;
    let _: &[u64; packet::STATUS_COUNT] = &stats.malformed;
    let _: &[u64; reject::RESULT_COUNT] = &stats.replies;
    let _: &[u64; named::RESULT_COUNT] = &stats.connections;
    let _: &[u64; teach::RESULT_COUNT] = &stats.answers;
};

/// A counter of a running worker.
pub fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Adds to a counter of the calling thread's own stats.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.store(get(counter).wrapping_add(amount), Ordering::Relaxed);
}

/// Packets received so far, with an id or without: what is compared with the kernel's count.
pub fn received(live: &LiveStats) -> u64 {
    get(&live.received) + get(&live.without_id)
}

/// Packets answered so far.
pub fn decided(live: &LiveStats) -> u64 {
    live.verdicts.iter().map(get).sum()
}

/// Copies the counters of a running worker.
pub fn snapshot(live: &LiveStats) -> Stats {
    let mut snapshot = Stats::default();
    for (to, from) in snapshot.words_mut().zip(live.words()) {
        *to = get(from);
    }
    snapshot
}

/// One reading of a queue, taken in the order of the fields.
#[derive(Clone, Debug, Default)]
pub struct StatsReading {
    /// `received`.
    pub received_before: u64,
    /// The kernel's.
    pub figures: QueueFigures,
    /// They could be read.
    pub known: bool,
    /// `snapshot`.
    pub after: Stats,
    /// Packets that the guard answered.
    pub stalled: u64,
    /// Some of them may still be in the socket.
    pub unreceived: bool,
}

/// The ledger of a queue, or the sum of several. It begins where the kernel gives a packet its id: what
/// was dropped before is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The number of the queue; without meaning in a sum.
    pub number: u16,
    pub stats: Stats,
    /// The kernel's figures are; else those that follow, but stalled, are 0.
    pub known: bool,
    /// id_sequence, extended to 64 bits.
    pub offered: u64,
    pub waiting: u64,
    pub queue_full: u64,
    pub user_drop: u64,
    /// Offered, but neither received, dropped, stalled nor waiting.
    pub unseen: u64,
    /// Answered by the guard, whether or not they were received later.
    pub stalled: u64,
    /// queue_full + user_drop: known, so no difference.
    pub lost: u64,
    /// Packets unaccounted for.
    pub difference: u64,
    /// The kernel's figures are known, and difference is 0.
    pub reconciled: bool,
}

/// How far a 32-bit count is ahead of a 64-bit one that is known to be near. Negative: behind, by at
/// most BEHIND_MAX; anything else is ahead, so that fail-open may leave most of 2^32 packets unseen.
fn ahead_of(count: u32, near: u64) -> i64 {
    i64::from(count.wrapping_sub(near as u32).wrapping_add(BEHIND_MAX)) - i64::from(BEHIND_MAX)
}

fn sum_verdicts(stats: &Stats) -> u64 {
    stats.verdicts.iter().sum()
}

/// Packets that were taken and not answered, or answered and not taken.
fn difference_of_verdicts(stats: &Stats, in_flight: u64) -> u64 {
    let verdicts = sum_verdicts(stats);
    if stats.received > verdicts + in_flight {
        return stats.received - verdicts - in_flight;
    }
    // A running worker may have answered more since received was read, an ended one can't.
    if verdicts > stats.received && in_flight == 0 {
        verdicts - stats.received
    } else {
        0
    }
}

/// Adds what the kernel's figures tell.
fn add_figures(reading: &StatsReading, fail_open: bool, ledger: &mut Ledger) {
    let kernel = &reading.figures;
    let received = reading.after.received + reading.after.without_id;
    // For our socket, and not dropped.
    let meant = kernel.offered.wrapping_sub(kernel.user_drop);
    let ahead = ahead_of(meant, received);
    let ahead_before = ahead_of(meant, reading.received_before);
    let known = received + u64::from(kernel.user_drop);
    let missed = u64::try_from(ahead - i64::from(kernel.waiting)).unwrap_or(0);
    // A kernel whose table of packets is full (hash insert failed, Linux 6.18.x) drops them with
    // their id. Its count of full queues is the same, so which of them had one can't be told.
    let excused = u64::from(kernel.queue_full)
        + match reading.unreceived {
            true => reading.stalled,
            false => 0,
        };

    // A count that is further behind than all we know is no wrap but a defect: shown as it is.
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

/// Makes the ledger of one queue. in_flight: how many received packets may still be without a
/// verdict: the batch of a running worker, 0 at exit. With fail_open, unseen packets passed
/// uninspected as they should and are no difference. With reading.unreceived up to
/// reading.stalled packets may be missing for that reason: how many, nobody can tell.
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

/// Adds a queue's ledger to a sum, which starts as `Ledger { known: true, reconciled: true, .. }`.
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
