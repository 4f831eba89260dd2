// SPDX-License-Identifier: GPL-2.0-or-later
//! Names and kernel values of verdicts, and the runs of a batch.

use nix::errno::Errno;
use rust_firewall::verdict::{self, batch_add, Verdict, VerdictBatch, VerdictRun, RUNS_MAX};
use sys_bindings::{NF_ACCEPT, NF_DROP, NF_QUEUE, NF_REPEAT};

fn batch_of(verdicts: &[(u32, Verdict, u32)]) -> Vec<VerdictRun> {
    let mut batch = VerdictBatch::default();
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

#[test]
fn a_gap_of_ids_does_not_end_a_run_but_an_earlier_id_does() {
    let accept = |id| (id, Verdict::Accept, 0);
    assert_eq!(batch_of(&[accept(1), accept(5)]), [run(NF_ACCEPT, 1, 5, 2)]);
    let expected = [
        run(NF_ACCEPT, 5, 5, 1),
        run(NF_ACCEPT, 5, 5, 1),
        run(NF_ACCEPT, 4, 4, 1),
    ];
    assert_eq!(batch_of(&[accept(5), accept(5), accept(4)]), expected);
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
fn a_full_batch_refuses_a_run_but_not_a_packet_of_the_last_one() {
    let mut batch = VerdictBatch::default();
    for id in 0..RUNS_MAX as u32 {
        let verdict = if id % 2 == 0 {
            Verdict::Accept
        } else {
            Verdict::Drop
        };
        batch_add(&mut batch, id, verdict, 0).unwrap();
    }
    assert_eq!(batch.count, RUNS_MAX);
    assert_eq!(
        batch_add(&mut batch, 5000, Verdict::Accept, 0),
        Err(Errno::ENOBUFS)
    );
    assert_eq!(batch_add(&mut batch, 5000, Verdict::Drop, 0), Ok(()));
    assert_eq!(batch.runs[RUNS_MAX - 1], run(NF_DROP, 1023, 5000, 2));
    verdict::batch_clear(&mut batch);
    assert_eq!(batch.count, 0);
}
