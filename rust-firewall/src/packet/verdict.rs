// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdicts: their values in the kernel, and batches of verdicts. Packets with adjacent IDs and the same verdict share
//! one netlink message.

use nix::errno::Errno;
use sys_bindings::{NF_ACCEPT, NF_DROP, NF_QUEUE, NF_REPEAT, NF_VERDICT_QBITS, NF_VERDICT_QMASK};

use crate::spec::option::BATCH_MAX;

pub const PACKETS_MAX: usize = BATCH_MAX as usize;
/// Maximum number of runs of a batch: all verdicts differ, and there is a gap before each packet and after the last
/// packet.
pub const RUNS_MAX: usize = 2 * PACKETS_MAX + 1;
/// Maximum total length in bytes of packets that the kernel gets back in one datagram; a longer packet has a datagram
/// of its own. Most datagrams then stay below a page; for larger datagrams kernels may map memory
/// (netlink_alloc_large_skb).
pub const RESTATED_TOGETHER: usize = 3072;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    /// Reject, which is a drop to the kernel.
    Reject,
    /// Accept with a mark.
    Mark,
    /// Another pass through the hook.
    Repeat,
    /// Transfer to a queue by its number: another queue, or the same queue once more.
    Requeue,
}

pub const COUNT: usize = Verdict::Requeue as usize + 1;

/// All verdicts in order, with their names in reports.
pub const VERDICTS: [(Verdict, &str); COUNT] = [
    (Verdict::Accept, "accept"),
    (Verdict::Drop, "drop"),
    (Verdict::Reject, "reject"),
    (Verdict::Mark, "mark"),
    (Verdict::Repeat, "repeat"),
    (Verdict::Requeue, "requeue"),
];

/// Packet that the kernel gets back with its verdict: the bytes that were read, with a correct checksum
/// (queue_restate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictRestated {
    /// Index of the packet among the packets of the receive call.
    pub index: u32,
    /// Length of the packet in bytes.
    pub bytes: u32,
    /// Offset of the checksum from the IP header, in bytes.
    pub place: u32,
    /// Checksum in host order.
    pub checksum: u16,
}

/// Run of packets with successive IDs and the same verdict, or a gap between IDs. Each run is sent as one netlink
/// message. A batch verdict of the kernel (nfqnl_recv_verdict_batch) applies to all waiting packets up to its ID.
/// Therefore the runs of a batch must be sent in order, and a run may contain no ID that has another verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictRun {
    /// Verdict in the form of the kernel (NF_*), in host order.
    pub kernel: u32,
    pub has_mark: bool,
    /// Mark in host order; 0 without `has_mark`.
    pub mark: u32,
    pub first_id: u32,
    pub last_id: u32,
    /// Number of packets; 0 for a gap.
    pub count: u32,
    /// True for a gap: IDs up to last_id without a readable message, whose packets the kernel may still hold.
    pub gap: bool,
    /// The packet that the kernel gets back; it is then alone in its run.
    pub restated: Option<VerdictRestated>,
}

/// Verdicts for the packets of one receive call, and the state of the queue's IDs.
///
/// Theory of operation: the kernel increments the ID by one for each packet that it offers, and sends the messages in
/// that order. Therefore a skipped ID will never have a message. Usually the kernel dropped the packet because the
/// socket's buffer was full (it reports this overrun). But the message may have been unreadable: then the packet waits
/// in the kernel, and the next batch verdict would apply to it. Therefore every gap gets the verdict of --fail
/// malformed, in a message of its own, before the verdict of the next ID.
pub struct VerdictBatch {
    /// Verdict for gaps (IDs without a readable message) in the form of the kernel (NF_*).
    fail: u32,
    /// True if last_id is known. False if another process may have received packets: a gap then covers all waiting
    /// packets before the next ID that is added.
    known: bool,
    /// Last ID that was added to the batch. All IDs up to it have a verdict after the batch is sent.
    pub last_id: u32,
    /// Number of messages without a readable ID since `last_id`.
    nameless: u32,
    /// True if the kernel has reported lost packets since the last gap.
    overrun: bool,
    /// Number of IDs since `batch_clear` that were skipped without an overrun or an unreadable message.
    pub gap_ids: u32,
    /// Number of runs.
    pub count: usize,
    /// Number of runs that were sent.
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

/// Returns the verdict's name in reports, e.g. "accept".
pub fn name(verdict: Verdict) -> &'static str {
    VERDICTS[verdict as usize].1
}

/// Returns a verdict in the form of the kernel (linux/netfilter.h).
/// - argument: queue number for `Requeue`, else ignored.
pub fn kernel(verdict: Verdict, argument: u32) -> u32 {
    match verdict {
        Verdict::Accept | Verdict::Mark => NF_ACCEPT,
        Verdict::Repeat => NF_REPEAT,
        // Value of the macro NF_QUEUE_NR.
        Verdict::Requeue => ((argument << NF_VERDICT_QBITS) & NF_VERDICT_QMASK) | NF_QUEUE,
        Verdict::Drop | Verdict::Reject => NF_DROP,
    }
}

/// Initialises a batch for a new queue, whose first packet has ID 1.
/// - gaps: verdict for IDs without a readable message.
pub fn batch_begin(batch: &mut VerdictBatch, gaps: Verdict) {
    batch.fail = kernel(gaps, 0);
    batch.known = true;
    batch.last_id = 0;
    batch.nameless = 0;
    batch.overrun = false;
    batch_clear(batch);
}

/// Marks the last ID as unknown. Must be called if another process may have received packets from the queue.
pub fn batch_forget(batch: &mut VerdictBatch) {
    batch.known = false;
    batch.nameless = 0;
}

/// Removes all runs from the batch. The last ID stays.
pub fn batch_clear(batch: &mut VerdictBatch) {
    batch.gap_ids = 0;
    batch.count = 0;
    batch.sent = 0;
}

/// Records that the kernel has lost packets because the socket's buffer was full. The next gap then does not count in
/// gap_ids.
pub fn batch_overrun(batch: &mut VerdictBatch) {
    batch.overrun = true;
}

/// Records a message whose packet ID is unreadable.
pub fn batch_skip(batch: &mut VerdictBatch) {
    batch.nameless += 1;
}

fn run_continues(last: &VerdictRun, next: &VerdictRun) -> bool {
    !last.gap
        && last.restated.is_none()
        && next.restated.is_none()
        && last.kernel == next.kernel
        && last.has_mark == next.has_mark
        && last.mark == next.mark
        && next.first_id == last.last_id.wrapping_add(1)
}

/// Appends a run. The caller has checked that there is room.
fn append_run(batch: &mut VerdictBatch, run: VerdictRun) {
    if let Some(free) = batch.runs.get_mut(batch.count) {
        *free = run;
        batch.count += 1;
    }
}

fn append_gap(batch: &mut VerdictBatch, last_id: u32) {
    let run = VerdictRun {
        kernel: batch.fail,
        first_id: batch.last_id.wrapping_add(1),
        last_id,
        gap: true,
        ..VerdictRun::default()
    };
    append_run(batch, run);
}

/// Sets the batch's last ID. Adds a run for the gap if IDs before it were skipped, or if the last ID was unknown. Also
/// accepts an ID that is not after the last ID (in the order of the kernel's nfq_id_after): the kernel has restarted
/// its numbering.
fn move_to(batch: &mut VerdictBatch, id: u32) {
    let passed = id.wrapping_sub(batch.last_id).wrapping_sub(1);
    let gap = !batch.known || (passed > 0 && passed < i32::MAX as u32);
    if gap {
        append_gap(batch, id.wrapping_sub(1));
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

/// Adds the run of one packet, after a run for a gap if there is a gap; or extends the last run by the packet. Fails
/// with ENOBUFS if there is no room for two runs.
fn add_run(batch: &mut VerdictBatch, next: VerdictRun) -> Result<(), Errno> {
    if batch.count + 2 > RUNS_MAX {
        return Err(Errno::ENOBUFS);
    }
    move_to(batch, next.first_id);
    if let Some(last) = batch
        .count
        .checked_sub(1)
        .and_then(|last| batch.runs.get_mut(last))
    {
        if run_continues(last, &next) {
            last.last_id = next.last_id;
            last.count += 1;
            return Ok(());
        }
    }
    append_run(batch, next);
    Ok(())
}

fn run_of(id: u32, verdict: Verdict, argument: u32) -> VerdictRun {
    let has_mark = verdict == Verdict::Mark;
    VerdictRun {
        kernel: kernel(verdict, argument),
        has_mark,
        mark: if has_mark { argument } else { 0 },
        first_id: id,
        last_id: id,
        count: 1,
        ..VerdictRun::default()
    }
}

/// Adds a packet's verdict to the batch. If IDs were skipped or the last ID is unknown, first adds a run for the gap.
/// Extends the last run if it has the same verdict for the kernel (a drop for reject) and the same mark, ends at the ID
/// before the packet's, and is neither a gap nor gives a packet back. Otherwise adds a run. IDs have 32 bits and wrap.
/// Fails with ENOBUFS if there is no room for two runs; the batch stays unchanged.
/// - argument: mark (host order) for `Mark`, queue number for `Requeue`, else ignored.
pub fn batch_add(
    batch: &mut VerdictBatch,
    id: u32,
    verdict: Verdict,
    argument: u32,
) -> Result<(), Errno> {
    add_run(batch, run_of(id, verdict, argument))
}

/// Adds the verdict of a packet that the kernel gets back, in a run of its own. Otherwise like `batch_add`.
pub fn batch_restate(
    batch: &mut VerdictBatch,
    id: u32,
    verdict: Verdict,
    argument: u32,
    restated: &VerdictRestated,
) -> Result<(), Errno> {
    let run = VerdictRun {
        restated: Some(*restated),
        ..run_of(id, verdict, argument)
    };
    add_run(batch, run)
}

/// Adds a run for the messages without a readable ID after the last packet, if the last ID is known. Must be called
/// after the last packet. The n-th message after an ID has an ID that is at least n higher. Therefore the run covers
/// the next n IDs.
pub fn batch_finish(batch: &mut VerdictBatch) {
    if batch.nameless == 0 || !batch.known || batch.count == RUNS_MAX {
        return;
    }
    let last_id = batch.last_id.wrapping_add(batch.nameless);
    append_gap(batch, last_id);
    batch.last_id = last_id;
    batch.nameless = 0;
}

/// Returns true if the batch has unsent runs.
pub fn batch_unsent(batch: &VerdictBatch) -> bool {
    batch.sent < batch.count
}

/// Returns the next unsent runs for one datagram: at most `most` runs, with at most RESTATED_TOGETHER bytes of packets
/// that the kernel gets back (`VerdictRun::restated`). A longer packet has a datagram of its own.
pub fn batch_rest(batch: &VerdictBatch, most: usize) -> &[VerdictRun] {
    let end = batch.count.min(batch.sent.saturating_add(most));
    let runs = batch.runs.get(batch.sent..end).unwrap_or_default();
    let mut bytes = 0;
    let mut together = 0;
    for run in runs {
        bytes += run.restated.map_or(0, |restated| restated.bytes as usize);
        if together > 0 && bytes > RESTATED_TOGETHER {
            break;
        }
        together += 1;
    }
    runs.get(..together).unwrap_or_default()
}

/// Changes the next unsent run to a drop: its packet does not fit into a message to the kernel.
pub fn batch_withhold(batch: &mut VerdictBatch) {
    if let Some(run) = batch.runs.get_mut(batch.sent) {
        run.restated = None;
        run.kernel = NF_DROP;
    }
}
