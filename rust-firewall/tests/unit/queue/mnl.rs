// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the mnl backend with the shared vectors, and in comparison with the raw backend.

use crate::support::messages;
use crate::support::messages::{packet_message, Random, PACKET_HDR, PAYLOAD};
use crate::support::vectors;
use rust_firewall::packet::verdict::{batch_add, Verdict, VerdictBatch, PACKETS_MAX};
use rust_firewall::queue;
use rust_firewall::queue::{QueuePacket, QueueParsed, VERDICT_BYTES};

/// Returns a parser's result for a message, and its packet if the result is `Packet`.
fn parsed(parse: messages::Parse, bytes: &[u8]) -> (QueueParsed, Option<QueuePacket>) {
    let mut packet = QueuePacket::default();
    let parsed = parse(bytes, &mut packet);
    (parsed, (parsed == QueueParsed::Packet).then_some(packet))
}

#[test]
fn every_vector_gives_what_it_expects() {
    for block in &vectors::read("netlink.txt") {
        let told = messages::told(queue::mnl::parse, &messages::received(block));
        assert_eq!(
            Some(told.as_str()),
            block.value("expect"),
            "{}",
            block.name()
        );
    }
}

#[test]
fn both_parsers_agree_on_all_fields_of_every_vector() {
    for block in &vectors::read("netlink.txt") {
        let bytes = messages::received(block);
        let raw = parsed(queue::raw::parse, &bytes);
        assert_eq!(parsed(queue::mnl::parse, &bytes), raw, "{}", block.name());
    }
}

#[test]
fn both_parsers_agree_on_damaged_messages() {
    let bytes = packet_message(&[
        PACKET_HDR,
        (3, &[0, 0, 1, 1]),
        (6, &[0, 0, 0, 3]),
        (16, &[0, 0, 3, 232]),
        (13, &[0, 0, 5, 220]),
        (PAYLOAD, &[7; 21]),
    ]);
    let mut random = Random(2);
    for _ in 0..200_000 {
        let mut bytes = bytes.clone();
        for _ in 0..=random.next() % 4 {
            let at = random.next() as usize % bytes.len();
            bytes[at] = random.next() as u8 & 0x1f;
        }
        bytes.truncate(bytes.len() - random.next() as usize % 8);
        let raw = parsed(queue::raw::parse, &bytes);
        assert_eq!(parsed(queue::mnl::parse, &bytes), raw, "{bytes:02x?}");
    }
}

#[test]
fn a_message_that_is_not_aligned_never_reaches_the_library() {
    let bytes = packet_message(&[PACKET_HDR]);
    let mut shifted = vec![0; bytes.len() + 1];
    shifted[1..].copy_from_slice(&bytes);
    assert_eq!(parsed(queue::mnl::parse, &bytes).0, QueueParsed::Packet);
    assert_eq!(
        parsed(queue::mnl::parse, &shifted[1..]).0,
        QueueParsed::Malformed
    );
}

#[test]
fn both_backends_write_the_same_verdicts() {
    let mut random = Random(3);
    for count in [1, 2, 3, 64, PACKETS_MAX] {
        let mut batch = VerdictBatch::default();
        for place in 0..count as u32 {
            let id = place + random.next() as u32 % 2;
            let verdict = [
                Verdict::Accept,
                Verdict::Drop,
                Verdict::Mark,
                Verdict::Requeue,
            ];
            let verdict = verdict[random.next() as usize % verdict.len()];
            batch_add(&mut batch, id, verdict, random.next() as u32 % 3).unwrap();
        }
        let mut raw = vec![0xee; batch.count * VERDICT_BYTES];
        let mut mnl = vec![0xee; batch.count * VERDICT_BYTES];
        let runs = &batch.runs[..batch.count];
        let raw_length = queue::raw::build_verdicts(258, runs, &mut raw);
        let mnl_length = queue::mnl::build_verdicts(258, runs, &mut mnl);
        assert!(raw_length >= batch.count * 32);
        assert_eq!(mnl[..mnl_length], raw[..raw_length]);
    }
}

#[test]
fn a_buffer_that_is_too_small_is_not_written_to() {
    let mut batch = VerdictBatch::default();
    batch_add(&mut batch, 1, Verdict::Mark, 1).unwrap();
    let mut buffer = [0xee; VERDICT_BYTES - 1];
    assert_eq!(
        queue::mnl::build_verdicts(0, &batch.runs[..2], &mut buffer),
        0
    );
    assert_eq!(buffer, [0xee; VERDICT_BYTES - 1]);
}
