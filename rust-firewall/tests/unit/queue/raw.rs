// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the raw backend: its parser with the shared vectors, and the messages that it writes.

use crate::support::messages;
use crate::support::messages::{packet_message, Random, PACKET_HDR, PAYLOAD};
use crate::support::vectors;
use rust_firewall::options::{self, OptionsAction};
use rust_firewall::packet::verdict::{batch_add, batch_begin, Verdict, VerdictBatch};
use rust_firewall::queue::raw::{build_request, build_verdicts, parse};
use rust_firewall::queue::{
    QueuePacket, QueueParsed, QueueRequest, QueueSettings, REQUEST_BYTES, UNKNOWN, VERDICT_BYTES,
};

#[test]
fn every_vector_gives_what_it_expects() {
    let blocks = vectors::read("netlink.txt");
    assert!(blocks.len() > 40, "only {} vectors", blocks.len());
    for block in &blocks {
        let told = messages::told(parse, &messages::received(block));
        assert_eq!(
            Some(told.as_str()),
            block.value("expect"),
            "{}",
            block.name()
        );
    }
}

#[test]
fn all_that_the_kernel_tells_is_taken() {
    let bytes = packet_message(&[
        PACKET_HDR,
        (3, &[0, 0, 1, 1]),
        (5, &[0, 0, 0, 2]),
        (6, &[0, 0, 0, 3]),
        (14, &[0, 0, 0, 6]),
        (16, &[0, 0, 3, 232]),
        (17, &[0, 0, 0, 100]),
        (12, &[0, 0, 0, 2]),
        (0x800b, &[8, 0, 8, 0, 0, 0, 0, 42]),
        (13, &[0, 0, 5, 220]),
        (PAYLOAD, &[0x45, 0, 0, 20, 9]),
    ]);
    let mut packet = QueuePacket::default();
    assert_eq!(parse(&bytes, &mut packet), QueueParsed::Packet);
    let expected = QueuePacket {
        id: 7,
        ethertype: 0x0800,
        hook: 3,
        truncated: false,
        spoiled: false,
        nameless: false,
        mark: 257,
        indev: 2,
        outdev: 3,
        uid: 1000,
        gid: 100,
        ct_info: 2,
        has_ct_mark: true,
        ct_mark: 42,
        skb_info: 6,
        payload_offset: bytes.len() - 5,
        payload_bytes: 5,
        original_bytes: 1500,
    };
    assert_eq!(packet, expected);
}

#[test]
fn what_the_kernel_does_not_tell_is_unknown() {
    let mut packet = QueuePacket {
        mark: 1,
        uid: 0,
        payload_bytes: 9,
        ..QueuePacket::default()
    };
    assert_eq!(
        parse(&packet_message(&[PACKET_HDR]), &mut packet),
        QueueParsed::Packet
    );
    let expected = QueuePacket {
        id: 7,
        ethertype: 0x0800,
        hook: 3,
        ..QueuePacket::default()
    };
    assert_eq!(packet, expected);
    assert_eq!((packet.uid, packet.gid), (UNKNOWN, UNKNOWN));
}

#[test]
fn a_payload_never_leaves_the_message() {
    let bytes = packet_message(&[PACKET_HDR, (13, &[0, 0, 5, 220]), (PAYLOAD, &[7; 30])]);
    let mut random = Random(1);
    for _ in 0..200_000 {
        let mut bytes = bytes.clone();
        for _ in 0..=random.next() % 4 {
            let at = random.next() as usize % bytes.len();
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.next() as usize % (bytes.len() + 1));
        let mut packet = QueuePacket::default();
        if parse(&bytes, &mut packet) == QueueParsed::Packet && packet.payload_bytes > 0 {
            assert!(packet.payload_offset + packet.payload_bytes as usize <= bytes.len());
        }
    }
}

fn batch_of(verdicts: &[(u32, Verdict, u32)]) -> VerdictBatch {
    let mut batch = VerdictBatch::default();
    batch_begin(&mut batch, Verdict::Drop);
    for (id, verdict, argument) in verdicts {
        batch_add(&mut batch, *id, *verdict, *argument).unwrap();
    }
    batch
}

#[test]
fn a_run_of_one_packet_is_a_verdict_and_a_longer_one_a_batch_verdict() {
    let batch = batch_of(&[
        (1, Verdict::Drop, 0),
        (2, Verdict::Accept, 0),
        (3, Verdict::Accept, 0),
        (4, Verdict::Mark, 0x11223344),
        (7, Verdict::Accept, 0),
    ]);
    let mut buffer = [0xee; 6 * VERDICT_BYTES];
    let length = build_verdicts(258, &batch.runs[..batch.count], &mut buffer);
    #[rustfmt::skip]
    let expected = [
        32, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        32, 0, 0, 0, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 3,
        40, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4,
        8, 0, 3, 0, 0x11, 0x22, 0x33, 0x44,
        // the gap, with its sequence number
        32, 0, 0, 0, 3, 3, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 6,
        32, 0, 0, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2,
        12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 7,
    ];
    assert_eq!(buffer[..length], expected);
}

#[test]
fn a_buffer_that_is_too_small_is_not_left() {
    let batch = batch_of(&[(1, Verdict::Drop, 0), (2, Verdict::Accept, 0)]);
    for bytes in 0..64 {
        build_verdicts(0, &batch.runs[..batch.count], &mut vec![0; bytes]);
    }
}

fn settings() -> QueueSettings {
    let arguments = ["rust-firewall", "--queue", "258"].map(Into::into);
    let OptionsAction::Run(options) = options::parse(&arguments).unwrap() else {
        panic!("a good command line");
    };
    options::queue(&options, None, options.queue_first)
}

fn request(settings: &QueueSettings, request: QueueRequest) -> Vec<u8> {
    let mut buffer = [0xee; REQUEST_BYTES];
    let length = build_request(
        settings,
        5,
        request,
        request != QueueRequest::Unbind,
        &mut buffer,
    );
    assert_eq!(buffer[..4], (length as u32).to_ne_bytes());
    assert_eq!(buffer[4..6], 0x0302_u16.to_ne_bytes());
    assert_eq!(buffer[8..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    let flags = if request == QueueRequest::Unbind {
        1
    } else {
        5
    };
    assert_eq!(buffer[6..8], [flags, 0], "NLM_F_REQUEST, NLM_F_ACK");
    buffer[20..length].to_vec()
}

#[test]
fn requests_are_as_the_kernel_wants_them() {
    let settings = settings();
    assert_eq!(
        request(&settings, QueueRequest::Bind),
        [8, 0, 1, 0, 1, 0, 0, 0]
    );
    assert_eq!(
        request(&settings, QueueRequest::Length),
        [8, 0, 3, 0, 0, 2, 0, 0]
    );
    let flags = [8, 0, 5, 0, 0, 0, 0, 5, 8, 0, 4, 0, 0, 0, 0, 15];
    assert_eq!(request(&settings, QueueRequest::Flags), flags);
    let mode = [9, 0, 2, 0, 0, 0, 0, 128, 2, 0, 0, 0];
    assert_eq!(request(&settings, QueueRequest::Mode), mode);
    assert_eq!(
        request(&settings, QueueRequest::Unbind),
        [8, 0, 1, 0, 2, 0, 0, 0]
    );
}

#[test]
fn no_copy_asks_for_the_metadata_only() {
    let settings = QueueSettings {
        copy_bytes: 0,
        ..settings()
    };
    let mode = [9, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(request(&settings, QueueRequest::Mode), mode);
}
