// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a queue stalls, told from the kernel's figures alone. Pure.
//!
//! Theory of operation: what was answered is what was enqueued (offered - user drop) less what waits.
//! If a look finds packets waiting, and the same number answered by the firewall as all looks of a
//! deadline before, the firewall stalls; packets up to the last id of the oldest of these looks have
//! waited for the whole deadline and are due. What the guard answers itself is no progress. With
//! --fail overload=open a packet that the socket has no room for counts as offered and passes, which
//! looks as if it had been answered; so there the first message in the socket decides, too: as long
//! as it stays the same, nobody takes anything out.

use crate::queue::proc::QueueFigures;

/// In a deadline.
pub const LOOKS: usize = 4;

/// Result of a look.
#[derive(Clone, Copy, Debug, Default)]
struct GuardLook {
    waiting: u32,
    offered: u32,
    enqueued: u32,
    /// By the firewall.
    settled: u32,
}

/// Observed state of a queue.
#[derive(Clone, Debug, Default)]
pub struct GuardWatch {
    /// Without progress, the oldest first.
    looks: Vec<GuardLook>,
    /// Id of the first message in the socket at the last look.
    head: Option<u32>,
    /// Packets that the guard answered.
    own: u32,
    /// With what the guard has answered since the firewall last did: enqueued, of the look whose
    /// packets were the last.
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

/// Forgets the looks: the guard itself did not run for a while and can't judge.
pub fn forget(watch: &mut GuardWatch) {
    watch.looks.clear();
}

fn remember(watch: &mut GuardWatch, look: GuardLook) {
    if watch.looks.len() > LOOKS {
        watch.looks.remove(0);
    }
    watch.looks.push(look);
}

/// Adds a look to the statistics.
/// - head: id of the first message in the queue's socket, if there is one and it matters.
/// - Returns the id up to which packets are due.
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

/// The guard has answered what was due.
/// - before, after: figures from around the answer.
/// - Returns how many packets it answered (what the firewall answered between both readings is among
///   them: nobody can tell), and whether this is the first time since the firewall answered anything.
pub fn settled(watch: &mut GuardWatch, before: &QueueFigures, after: &QueueFigures) -> (u32, bool) {
    let came = enqueued_of(after).wrapping_sub(enqueued_of(before));
    let there = before.waiting.wrapping_add(came);
    let settled = there.saturating_sub(after.waiting);
    let begins = watch.settled.is_none();
    watch.settled = watch.looks.first().map(|oldest| oldest.enqueued);
    watch.own = watch.own.wrapping_add(settled);
    (settled, begins)
}
