// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of verdicts: their names and kernel values, and the runs of a batch.

use nix::errno::Errno;
use rust_firewall::packet::verdict::{
    self, batch_add, batch_begin, batch_clear, batch_finish, batch_forget, batch_overrun,
    batch_skip, batch_unsent, Verdict, VerdictBatch, VerdictRun, PACKETS_MAX, RUNS_MAX,
};
use sys_bindings::{NF_ACCEPT, NF_DROP, NF_QUEUE, NF_REPEAT};

fn new_batch() -> Box<VerdictBatch> {
    let mut batch = Box::<VerdictBatch>::default();
    batch_begin(&mut batch, Verdict::Drop);
    batch
}

fn runs_of(batch: &VerdictBatch) -> &[VerdictRun] {
    &batch.runs[..batch.count]
}

fn accept(batch: &mut VerdictBatch, id: u32) {
    batch_add(batch, id, Verdict::Accept, 0).unwrap();
}

/// Adds verdicts (ID, verdict, argument) to a new batch, and returns its runs. There is no gap before the first ID.
fn batch_of(verdicts: &[(u32, Verdict, u32)]) -> Vec<VerdictRun> {
    let mut batch = new_batch();
    batch.last_id = verdicts[0].0.wrapping_sub(1);
    for (id, verdict, argument) in verdicts {
        batch_add(&mut batch, *id, *verdict, *argument).unwrap();
    }
    batch.runs[..batch.count].to_vec()
}

fn run(kernel: u32, first_id: u32, last_id: u32, count: u32) -> VerdictRun {
    VerdictRun {
        kernel,
        has_mark: false,
        mark: 0,
        first_id,
        last_id,
        count,
        ..VerdictRun::default()
    }
}

fn gap(first_id: u32, last_id: u32) -> VerdictRun {
    VerdictRun {
        gap: true,
        ..run(NF_DROP, first_id, last_id, 0)
    }
}

#[test]
fn names_are_those_of_the_ledger() {
    let names = verdict::VERDICTS.map(|(verdict, _)| verdict::name(verdict));
    assert_eq!(
        names,
        ["accept", "drop", "reject", "mark", "repeat", "requeue"]
    );
}

#[test]
fn kernel_values_are_those_of_netfilter() {
    let values = verdict::VERDICTS.map(|(verdict, _)| verdict::kernel(verdict, 5));
    let requeue = 5 << 16 | NF_QUEUE;
    assert_eq!(
        values,
        [NF_ACCEPT, NF_DROP, NF_DROP, NF_ACCEPT, NF_REPEAT, requeue]
    );
    assert_eq!(verdict::kernel(Verdict::Requeue, 65535), 0xffff_0003);
}

#[test]
fn neighbours_with_the_same_verdict_are_one_run() {
    let accept = |id| (id, Verdict::Accept, 0);
    assert_eq!(
        batch_of(&[accept(7), accept(8), accept(9)]),
        [run(NF_ACCEPT, 7, 9, 3)]
    );
}

#[test]
fn another_verdict_begins_a_run() {
    let runs = batch_of(&[
        (1, Verdict::Accept, 0),
        (2, Verdict::Drop, 0),
        (3, Verdict::Drop, 0),
        (4, Verdict::Accept, 0),
    ]);
    let expected = [
        run(NF_ACCEPT, 1, 1, 1),
        run(NF_DROP, 2, 3, 2),
        run(NF_ACCEPT, 4, 4, 1),
    ];
    assert_eq!(runs, expected);
}

#[test]
fn drop_and_reject_are_one_run_to_the_kernel() {
    let runs = batch_of(&[(1, Verdict::Drop, 0), (2, Verdict::Reject, 0)]);
    assert_eq!(runs, [run(NF_DROP, 1, 2, 2)]);
}

#[test]
fn a_mark_is_part_of_the_run() {
    let runs = batch_of(&[
        (1, Verdict::Accept, 9),
        (2, Verdict::Mark, 0),
        (3, Verdict::Mark, 5),
        (4, Verdict::Mark, 5),
    ]);
    let marked = |mark, first_id, last_id, count| VerdictRun {
        has_mark: true,
        mark,
        ..run(NF_ACCEPT, first_id, last_id, count)
    };
    assert_eq!(
        runs,
        [
            run(NF_ACCEPT, 1, 1, 1),
            marked(0, 2, 2, 1),
            marked(5, 3, 4, 2)
        ]
    );
}

/// A batch verdict applies to all waiting packets up to its ID. Therefore an ID that is not higher than the previous ID
/// begins another run (IDs with a common batch verdict).
#[test]
fn an_earlier_id_begins_a_run() {
    let accept = |id| (id, Verdict::Accept, 0);
    let expected = [
        run(NF_ACCEPT, 9, 9, 1),
        run(NF_ACCEPT, 8, 8, 1),
        run(NF_ACCEPT, 8, 9, 2),
    ];
    assert_eq!(
        batch_of(&[accept(9), accept(8), accept(8), accept(9)]),
        expected
    );
}

/// The IDs of a gap get their verdict in a run of their own, before the next ID's run: otherwise the batch verdict of
/// the next ID's run would apply to them.
#[test]
fn a_gap_gets_a_verdict_of_its_own() {
    let mut batch = new_batch();
    for id in [1, 50, 51] {
        accept(&mut batch, id);
    }
    let expected = [
        run(NF_ACCEPT, 1, 1, 1),
        gap(2, 49),
        run(NF_ACCEPT, 50, 51, 2),
    ];
    assert_eq!(runs_of(&batch), expected);
    assert_eq!(batch.gap_ids, 48);
    batch_clear(&mut batch);
    assert_eq!(batch.gap_ids, 0);
}

#[test]
fn the_first_ids_of_a_queue_can_be_a_gap() {
    let mut batch = new_batch();
    batch_add(&mut batch, 3, Verdict::Drop, 0).unwrap();
    assert_eq!(runs_of(&batch), [gap(1, 2), run(NF_DROP, 3, 3, 1)]);
}

#[test]
fn gaps_get_the_verdict_that_was_asked_for() {
    let mut batch = new_batch();
    batch_begin(&mut batch, Verdict::Accept);
    batch_add(&mut batch, 2, Verdict::Drop, 0).unwrap();
    assert_eq!((batch.runs[0].kernel, batch.runs[0].gap), (NF_ACCEPT, true));
}

#[test]
fn a_gap_wraps() {
    let mut batch = new_batch();
    batch.last_id = u32::MAX - 1;
    accept(&mut batch, 1);
    assert_eq!(runs_of(&batch), [gap(u32::MAX, 0), run(NF_ACCEPT, 1, 1, 1)]);
    assert_eq!(batch.gap_ids, 2);
}

#[test]
fn gaps_are_explained_by_messages_and_overruns() {
    let mut batch = new_batch();
    batch_skip(&mut batch);
    batch_skip(&mut batch);
    accept(&mut batch, 3);
    assert_eq!(batch.gap_ids, 0);
    batch_skip(&mut batch);
    accept(&mut batch, 6);
    assert_eq!(batch.gap_ids, 1);
    batch_overrun(&mut batch);
    accept(&mut batch, 900);
    assert_eq!(batch.gap_ids, 1);
    accept(&mut batch, 902); // an overrun explains a gap
    assert_eq!((batch.gap_ids, batch.count), (2, 8));
}

/// The packets of messages without a readable ID at the end of a batch get a verdict: otherwise these packets would
/// wait for the next message.
#[test]
fn what_has_no_id_is_answered_at_the_end() {
    let mut batch = new_batch();
    accept(&mut batch, 1);
    batch_skip(&mut batch);
    batch_skip(&mut batch);
    batch_finish(&mut batch);
    assert_eq!(runs_of(&batch), [run(NF_ACCEPT, 1, 1, 1), gap(2, 3)]);
    batch_clear(&mut batch);
    batch_finish(&mut batch);
    assert_eq!(batch.count, 0);
    accept(&mut batch, 4);
    assert_eq!((batch.count, batch.gap_ids), (1, 0));
}

/// In a queue that was taken over, all packets before the first received ID are answered as a gap.
#[test]
fn an_unknown_beginning_is_a_gap() {
    let mut batch = new_batch();
    batch_forget(&mut batch);
    batch_skip(&mut batch);
    batch_finish(&mut batch);
    assert_eq!(batch.count, 0);
    accept(&mut batch, 700);
    assert_eq!((batch.count, batch.gap_ids), (2, 0));
    assert_eq!((batch.runs[0].last_id, batch.runs[0].gap), (699, true));
}

#[test]
fn a_run_goes_on_where_the_id_wraps() {
    let accept = |id| (id, Verdict::Accept, 0);
    assert_eq!(
        batch_of(&[accept(u32::MAX), accept(0)]),
        [run(NF_ACCEPT, u32::MAX, 0, 2)]
    );
}

#[test]
fn a_full_batch_is_left_as_it_is() {
    let mut batch = new_batch();
    for i in 1..=PACKETS_MAX as u32 {
        accept(&mut batch, 2 * i);
    }
    assert_eq!(batch.count, RUNS_MAX - 1);
    assert_eq!(
        batch_add(&mut batch, 3000, Verdict::Accept, 0),
        Err(Errno::ENOBUFS)
    );
    assert_eq!(batch.count, RUNS_MAX - 1);
    batch_skip(&mut batch);
    batch_finish(&mut batch);
    assert_eq!(batch.count, RUNS_MAX);
    assert!(batch_unsent(&batch));
    batch.sent = batch.count;
    assert!(!batch_unsent(&batch));
    batch_clear(&mut batch);
    assert_eq!((batch.count, batch.sent), (0, 0));
}
