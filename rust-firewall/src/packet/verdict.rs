// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be done with a packet, what the kernel calls it, and how neighbours share one message.

use nix::errno::Errno;
use sys_bindings::{NF_ACCEPT, NF_DROP, NF_QUEUE, NF_REPEAT, NF_VERDICT_QBITS, NF_VERDICT_QMASK};

use crate::spec::option::BATCH_MAX;

pub const PACKETS_MAX: usize = BATCH_MAX as usize;
/// All different, each behind a gap, and one at last.
pub const RUNS_MAX: usize = 2 * PACKETS_MAX + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    /// To the kernel a drop.
    Reject,
    /// To the kernel an accept with a mark.
    Mark,
    /// Through the hook once more.
    Repeat,
    /// To another queue.
    Requeue,
}

pub const COUNT: usize = Verdict::Requeue as usize + 1;

/// All of them in order, with their names in reports.
pub const VERDICTS: [(Verdict, &str); COUNT] = [
    (Verdict::Accept, "accept"),
    (Verdict::Drop, "drop"),
    (Verdict::Reject, "reject"),
    (Verdict::Mark, "mark"),
    (Verdict::Repeat, "repeat"),
    (Verdict::Requeue, "requeue"),
];

/// A run: packets of successive ids that share a verdict, or a gap. It is one netlink message. A
/// batch verdict of the kernel (nfqnl_recv_verdict_batch) covers every id up to its own, so the
/// runs of a batch must be sent in order, and none goes over an id that is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictRun {
    /// NF_* value, host order.
    pub kernel: u32,
    pub has_mark: bool,
    /// Host order; 0 without `has_mark`.
    pub mark: u32,
    pub first_id: u32,
    pub last_id: u32,
    /// Packets; 0 in a gap.
    pub count: u32,
    /// Ids without a message: those that the kernel still holds up to last_id.
    pub gap: bool,
}

/// The verdicts of one receive call, and where it stands in the ids of its queue.
///
/// Theory of operation: the kernel counts up by one for each packet that it offers, and its messages
/// come in that order. So an id that was passed over has no message to come. Most often there is no
/// packet either, since the socket's buffer was full (an overrun tells of it). But its message may
/// have been one that could not be read: then the packet waits in the kernel, and the next batch
/// verdict would let it pass. Therefore every gap gets the verdict of --fail malformed, on its own,
/// before the verdict of the id behind it.
pub struct VerdictBatch {
    /// NF_* value for gaps.
    fail: u32,
    /// last_id is; else the first gap reaches back to all that waits.
    known: bool,
    /// Up to it each id has its verdict, as soon as the batch is sent.
    pub last_id: u32,
    /// Messages without an id since.
    nameless: u32,
    /// The kernel has reported lost packets, and no gap has come since.
    overrun: bool,
    /// Passed over, by neither explained, since `batch_clear`.
    pub gap_ids: u32,
    /// How many runs there are.
    pub count: usize,
    /// Runs that the kernel has.
    pub sent: usize,
    pub runs: [VerdictRun; RUNS_MAX],
}

impl Default for VerdictBatch {
    fn default() -> Self {
        VerdictBatch {
            fail: 0,
            known: false,
            last_id: 0,
            nameless: 0,
            overrun: false,
            gap_ids: 0,
            count: 0,
            sent: 0,
            runs: [VerdictRun::default(); RUNS_MAX],
        }
    }
}

/// The verdict's name in reports, e.g. "accept".
pub fn name(verdict: Verdict) -> &'static str {
    VERDICTS[verdict as usize].1
}

/// The kernel's value (linux/netfilter.h). argument: the queue number for `Requeue`, else ignored.
pub fn kernel(verdict: Verdict, argument: u32) -> u32 {
    match verdict {
        Verdict::Accept | Verdict::Mark => NF_ACCEPT,
        Verdict::Repeat => NF_REPEAT,
        // NF_QUEUE_NR, which is a macro.
        Verdict::Requeue => ((argument << NF_VERDICT_QBITS) & NF_VERDICT_QMASK) | NF_QUEUE,
        Verdict::Drop | Verdict::Reject => NF_DROP,
    }
}

/// Begins at the start of a queue, whose first id is 1. gaps: the verdict for ids that no message told
/// of.
pub fn batch_begin(batch: &mut VerdictBatch, gaps: Verdict) {
    batch.fail = kernel(gaps, 0);
    batch.known = true;
    batch.last_id = 0;
    batch.nameless = 0;
    batch.overrun = false;
    batch_clear(batch);
}

/// To be called when another process may have received from the queue.
pub fn batch_forget(batch: &mut VerdictBatch) {
    batch.known = false;
    batch.nameless = 0;
}

/// Empties the batch.
pub fn batch_clear(batch: &mut VerdictBatch) {
    batch.gap_ids = 0;
    batch.count = 0;
    batch.sent = 0;
}

/// To be told when the kernel lost packets for want of room in the socket: that explains a gap.
pub fn batch_overrun(batch: &mut VerdictBatch) {
    batch.overrun = true;
}

/// Passes over a packet whose id could not be read.
pub fn batch_skip(batch: &mut VerdictBatch) {
    batch.nameless += 1;
}

fn run_continues(last: &VerdictRun, next: &VerdictRun) -> bool {
    !last.gap
        && last.kernel == next.kernel
        && last.has_mark == next.has_mark
        && last.mark == next.mark
        && next.first_id == last.last_id.wrapping_add(1)
}

/// Appends a run; the caller has checked that there is room.
fn put_run(batch: &mut VerdictBatch, run: VerdictRun) {
    if let Some(free) = batch.runs.get_mut(batch.count) {
        *free = run;
        batch.count += 1;
    }
}

fn put_gap(batch: &mut VerdictBatch, last_id: u32) {
    let run = VerdictRun {
        kernel: batch.fail,
        first_id: batch.last_id.wrapping_add(1),
        last_id,
        gap: true,
        ..VerdictRun::default()
    };
    put_run(batch, run);
}

/// Goes on to an id, over a gap if there is one. An id that is not later than the last one (as
/// nfq_id_after of the kernel says) is taken as the kernel gives it: its count has begun anew.
fn move_to(batch: &mut VerdictBatch, id: u32) {
    let passed = id.wrapping_sub(batch.last_id).wrapping_sub(1);
    let gap = !batch.known || (passed > 0 && passed < i32::MAX as u32);
    if gap {
        put_gap(batch, id.wrapping_sub(1));
    }
    if gap && batch.known && !batch.overrun && passed > batch.nameless {
        batch.gap_ids = batch.gap_ids.wrapping_add(passed - batch.nameless);
    }
    if gap {
        batch.overrun = false;
    }
    batch.known = true;
    batch.nameless = 0;
    batch.last_id = id;
}

/// Adds a packet's verdict: to the last run if verdict and mark are the same and the id is the next
/// one (a 32-bit counter that wraps), else as a new run, behind one for the gap before it.
/// argument: the mark (host order) for `Mark`, the queue number for `Requeue`, else ignored.
/// Fails with ENOBUFS, the batch untouched, if there is no room for two runs.
pub fn batch_add(
    batch: &mut VerdictBatch,
    id: u32,
    verdict: Verdict,
    argument: u32,
) -> Result<(), Errno> {
    let has_mark = verdict == Verdict::Mark;
    let next = VerdictRun {
        kernel: kernel(verdict, argument),
        has_mark,
        mark: if has_mark { argument } else { 0 },
        first_id: id,
        last_id: id,
        count: 1,
        gap: false,
    };
    if batch.count + 2 > RUNS_MAX {
        return Err(Errno::ENOBUFS);
    }
    move_to(batch, id);
    if let Some(last) = batch
        .count
        .checked_sub(1)
        .and_then(|last| batch.runs.get_mut(last))
    {
        if run_continues(last, &next) {
            last.last_id = id;
            last.count += 1;
            return Ok(());
        }
    }
    put_run(batch, next);
    Ok(())
}

/// To be called after the last packet: gives verdicts to those passed over after it, as far as
/// their ids are known. The n-th message behind an id has an id at least n later, and all that come
/// after it have still later ones.
pub fn batch_finish(batch: &mut VerdictBatch) {
    if batch.nameless == 0 || !batch.known || batch.count == RUNS_MAX {
        return;
    }
    let last_id = batch.last_id.wrapping_add(batch.nameless);
    put_gap(batch, last_id);
    batch.last_id = last_id;
    batch.nameless = 0;
}

/// Whether runs are left to send.
pub fn batch_unsent(batch: &VerdictBatch) -> bool {
    batch.sent < batch.count
}

/// The runs that are left to send, at most so many.
pub fn batch_rest(batch: &VerdictBatch, most: usize) -> &[VerdictRun] {
    let end = batch.count.min(batch.sent.saturating_add(most));
    batch.runs.get(batch.sent..end).unwrap_or_default()
}
