// SPDX-License-Identifier: GPL-2.0-or-later
//! The verdict that gives a packet back to the kernel, and its place among other verdicts.

use rust_firewall::packet::verdict::{
    self, Verdict, VerdictBatch, VerdictRestated, VerdictRun, RESTATED_TOGETHER,
};
use rust_firewall::queue::restate::{build, is_among};
use rust_firewall::queue::{RESTATED_BYTES, RESTATED_PAYLOAD_MAX};
use sys_bindings::NF_ACCEPT;

const PAYLOAD: [u8; 5] = [0x45, 1, 2, 3, 4];

fn run_at(place: u32) -> VerdictRun {
    VerdictRun {
        kernel: NF_ACCEPT,
        has_mark: true,
        mark: 0x0a0b0c0d,
        first_id: 0x104,
        last_id: 0x104,
        count: 1,
        gap: false,
        restated: Some(VerdictRestated {
            index: 0,
            bytes: PAYLOAD.len() as u32,
            place,
            checksum: 0x1234,
        }),
    }
}

#[test]
fn the_message_has_the_mark_and_the_packet() {
    #[rustfmt::skip]
    let expected = [
        52, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 1, 4, 8, 0, 3, 0, 10, 11, 12, 13,
        9, 0, 10, 0, 0x45, 1, 0x12, 0x34, 4, 0, 0, 0,
    ];
    let mut buffer = vec![0xee; RESTATED_BYTES];
    let length = build(0x102, &run_at(2), &PAYLOAD, &mut buffer);
    assert_eq!(buffer[..length], expected);
}

#[test]
fn a_packet_that_does_not_fit_is_no_message() {
    let mut buffer = vec![0; RESTATED_BYTES];
    let mut length = |place, payload: &[u8]| build(1, &run_at(place), payload, &mut buffer);
    let longest = vec![0; RESTATED_PAYLOAD_MAX + 1];
    assert_eq!(length(3, &PAYLOAD), 52);
    assert_eq!(length(4, &PAYLOAD), 0);
    assert_eq!(length(3, &PAYLOAD[..1]), 0);
    assert_eq!(length(3, &longest[1..]), RESTATED_BYTES);
    assert_eq!(length(3, &longest), 0);
}

#[test]
fn a_datagram_has_packets_among_other_verdicts() {
    let restated = VerdictRestated {
        index: 2,
        bytes: 60,
        place: 16,
        checksum: 1,
    };
    let mut batch = VerdictBatch::default();
    verdict::batch_begin(&mut batch, Verdict::Drop);
    for id in 1..=2 {
        verdict::batch_add(&mut batch, id, Verdict::Accept, 0).unwrap();
    }
    for id in 3..=4 {
        verdict::batch_restate(&mut batch, id, Verdict::Accept, 0, &restated).unwrap();
    }
    verdict::batch_add(&mut batch, 5, Verdict::Accept, 0).unwrap();
    verdict::batch_add(&mut batch, 6, Verdict::Drop, 0).unwrap();
    assert_eq!(batch.count, 5);
    assert!(verdict::batch_rest(&batch, 0).is_empty());
    assert_eq!(verdict::batch_rest(&batch, 2).len(), 2);
    let runs = verdict::batch_rest(&batch, 9);
    let indices = runs.iter().map(|run| run.restated.map(|it| it.index));
    assert!(indices.eq([None, Some(2), Some(2), None, None]));
    assert!(is_among(runs) && is_among(&runs[..2]));
    assert!(!is_among(&runs[..1]) && !is_among(&runs[3..]));
    batch.sent = 5;
    assert!(verdict::batch_rest(&batch, 9).is_empty());
    batch.sent = 1;
    verdict::batch_withhold(&mut batch);
    assert_eq!(batch.runs[1].restated, None);
    assert_eq!(batch.runs[1].kernel, verdict::kernel(Verdict::Drop, 0));
}

#[test]
fn long_packets_have_datagrams_of_their_own() {
    let most = RESTATED_TOGETHER as u32;
    let mut batch = VerdictBatch::default();
    verdict::batch_begin(&mut batch, Verdict::Drop);
    for (id, bytes) in (1..).zip([most - 1000, 1000, 1, most + 1, 1]) {
        let restated = VerdictRestated {
            bytes,
            ..VerdictRestated::default()
        };
        verdict::batch_restate(&mut batch, id, Verdict::Accept, 0, &restated).unwrap();
    }
    verdict::batch_add(&mut batch, 6, Verdict::Accept, 0).unwrap();
    for count in [2, 1, 1, 2] {
        assert_eq!(verdict::batch_rest(&batch, 9).len(), count);
        batch.sent += count;
    }
    assert!(!verdict::batch_unsent(&batch));
}
