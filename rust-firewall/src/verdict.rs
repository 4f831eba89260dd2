// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be done with a packet, what the kernel calls it, and how neighbours share one message.

use nix::errno::Errno;
use sys_bindings::{NF_ACCEPT, NF_DROP, NF_QUEUE, NF_REPEAT, NF_VERDICT_QBITS, NF_VERDICT_QMASK};

/// The largest --batch: a receive call of as many packets, all different.
pub const RUNS_MAX: usize = 1024;

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

/// Packets of ascending ids that share a verdict: one netlink message. A batch verdict of the kernel
/// (nfqnl_recv_verdict_batch) covers every id up to its own, so the runs of a batch must be sent in
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictRun {
    /// NF_* value, host order.
    pub kernel: u32,
    pub has_mark: bool,
    /// Host order; 0 without `has_mark`.
    pub mark: u32,
    pub first_id: u32,
    pub last_id: u32,
    /// Packets.
    pub count: u32,
}

/// The verdicts of one receive call.
pub struct VerdictBatch {
    /// Of runs.
    pub count: usize,
    pub runs: [VerdictRun; RUNS_MAX],
}

impl Default for VerdictBatch {
    fn default() -> Self {
        VerdictBatch {
            count: 0,
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

/// Empties the batch.
pub fn batch_clear(batch: &mut VerdictBatch) {
    batch.count = 0;
}

/// Whether a 32-bit counter that wraps is later than another (nfq_id_after of the kernel).
fn id_after(id: u32, other: u32) -> bool {
    (id.wrapping_sub(other) as i32) > 0
}

fn run_continues(last: &VerdictRun, next: &VerdictRun) -> bool {
    last.kernel == next.kernel
        && last.has_mark == next.has_mark
        && last.mark == next.mark
        && id_after(next.first_id, last.last_id)
}

/// Adds a packet's verdict: to the last run if verdict and mark are the same and the id is later (a
/// 32-bit counter that wraps), else as a new run.
/// argument: the mark (host order) for `Mark`, the queue number for `Requeue`, else ignored.
/// Fails with ENOBUFS, the batch untouched, if RUNS_MAX runs are there.
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
    };
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
    let Some(run) = batch.runs.get_mut(batch.count) else {
        return Err(Errno::ENOBUFS);
    };
    *run = next;
    batch.count += 1;
    Ok(())
}
