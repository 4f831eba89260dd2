// SPDX-License-Identifier: GPL-2.0-or-later
//! Detection of a stalled queue from the kernel's figures alone, without side effects.
//!
//! Theory of operation: the number of answered packets is the number of enqueued packets (offered - user drop) minus
//! those that wait. A look is one reading of these figures. If packets wait at a look, and the firewall has answered
//! none since the look a deadline before, the firewall stalls. The packets up to the last ID of that earlier look have
//! waited for the whole deadline: they are due. Answers of the guard itself are not progress. With --fail overload=open
//! a packet that does not fit into the socket counts as offered and passes, as if it had been answered. Then the first
//! message in the socket decides, too: as long as it stays the same, the firewall receives nothing.

use crate::queue::proc::QueueFigures;

/// Number of looks (readings of a queue's counters) per deadline.
pub const LOOKS: usize = 4;

/// Counters of a queue at one reading.
#[derive(Clone, Copy, Debug, Default)]
struct GuardLook {
    waiting: u32,
    offered: u32,
    enqueued: u32,
    /// Number of packets that the firewall answered, without those that the guard answered.
    settled: u32,
}

/// State of the detection of stalls for one queue.
#[derive(Clone, Debug, Default)]
pub struct GuardWatch {
    /// Latest readings of the queue's counters since the firewall last answered packets, the oldest first.
    looks: Vec<GuardLook>,
    /// ID of the first message in the queue's socket at the last reading; None if there was none, or it was not
    /// examined.
    head: Option<u32>,
    /// Number of packets that the guard answered.
    own: u32,
    /// Value of `enqueued` at the oldest reading when the guard last answered. The guard answered the packets that were
    /// enqueued until this reading. None: the guard has answered no packets since the firewall last answered.
    settled: Option<u32>,
}

fn enqueued_of(figures: &QueueFigures) -> u32 {
    figures.offered.wrapping_sub(figures.user_drop)
}

fn look_of(watch: &GuardWatch, figures: &QueueFigures) -> GuardLook {
    let enqueued = enqueued_of(figures);
    GuardLook {
        waiting: figures.waiting,
        offered: figures.offered,
        enqueued,
        settled: enqueued
            .wrapping_sub(figures.waiting)
            .wrapping_sub(watch.own),
    }
}

/// Removes all readings, after a time in which the guard did not run or was paused.
pub fn forget(watch: &mut GuardWatch) {
    watch.looks.clear();
}

fn remember(watch: &mut GuardWatch, look: GuardLook) {
    if watch.looks.len() > LOOKS {
        watch.looks.remove(0);
    }
    watch.looks.push(look);
}

/// Adds a reading of a queue's counters.
/// - head: ID of the first message in the queue's socket; None if there is none, or without --fail overload=open.
/// - Returns the ID up to which packets have waited for the whole deadline, so that the guard must answer them; None if
///   there are none.
pub fn look(watch: &mut GuardWatch, figures: &QueueFigures, head: Option<u32>) -> Option<u32> {
    let look = look_of(watch, figures);
    let head_stays = head.is_some() && head == watch.head;
    let last = watch.looks.last();
    if last.is_some_and(|last| last.settled != look.settled) && !head_stays {
        watch.looks.clear();
        watch.settled = None;
    }
    watch.head = head;
    remember(watch, look);
    let oldest = watch.looks.first().filter(|_| watch.looks.len() > LOOKS)?;
    let due = look.waiting > 0 && oldest.waiting > 0 && watch.settled != Some(oldest.enqueued);
    due.then_some(oldest.offered)
}

/// Records that the guard has answered the packets up to the ID that `look` returned.
/// - before, after: counters from before and after the answer.
/// - Returns the number of packets that the guard answered. It includes packets that the firewall answered between both
///   readings, because these can't be distinguished. Also returns true if this is the first answer of the guard since
///   the firewall last answered.
pub fn settled(watch: &mut GuardWatch, before: &QueueFigures, after: &QueueFigures) -> (u32, bool) {
    let came = enqueued_of(after).wrapping_sub(enqueued_of(before));
    let there = before.waiting.wrapping_add(came);
    let settled = there.saturating_sub(after.waiting);
    let begins = watch.settled.is_none();
    watch.settled = watch.looks.first().map(|oldest| oldest.enqueued);
    watch.own = watch.own.wrapping_add(settled);
    (settled, begins)
}
