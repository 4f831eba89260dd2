// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the checks of a message's length, type and attributes, which precede any library.

use crate::support::messages;
#[allow(dead_code)]
use crate::support::messages::{packet_message, PACKET_HDR, PAYLOAD};
use crate::support::vectors;
use nix::errno::Errno;
use rust_firewall::packet::verdict::{self, Verdict, VerdictBatch};
use rust_firewall::queue::{
    self, attribute_fits, check_attributes, conntrack_mark, frame, truncated, QueueKind,
    QueuePacket, QueueParsed, QueueSettings,
};

fn framed(bytes: &[u8]) -> QueueParsed {
    frame(
        bytes,
        &mut QueuePacket {
            truncated: true,
            ..QueuePacket::default()
        },
    )
}

/// Returns a netlink message with a type and a body after its header; its length field is right.
fn message(nlmsg_type: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[..4].copy_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&nlmsg_type.to_ne_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn vectors_that_are_no_packets_are_told_by_the_frame_alone() {
    for block in vectors::read("netlink.txt") {
        let expected = block.value("expect").unwrap().to_owned();
        if expected.starts_with("result=packet") || expected == "result=malformed" {
            continue;
        }
        assert_eq!(
            messages::told(frame, &messages::received(&block)),
            expected,
            "{}",
            block.name()
        );
    }
}

#[test]
fn a_whole_packet_message_is_told_as_one() {
    let bytes = packet_message(&[PACKET_HDR]);
    let mut packet = QueuePacket {
        truncated: true,
        ..QueuePacket::default()
    };
    assert_eq!(frame(&bytes, &mut packet), QueueParsed::Packet);
    assert!(!packet.truncated);
}

#[test]
fn fewer_bytes_than_the_headers_are_malformed() {
    let bytes = packet_message(&[PACKET_HDR]);
    for received in 0..20 {
        assert_eq!(
            framed(&bytes[..received]),
            QueueParsed::Malformed,
            "{received} bytes"
        );
    }
    assert_eq!(framed(&message(0x0300, &[0; 3])), QueueParsed::Malformed);
    let mut bytes = bytes;
    bytes[..4].copy_from_slice(&19_u32.to_ne_bytes());
    assert_eq!(framed(&bytes), QueueParsed::Malformed);
}

#[test]
fn other_messages_are_ignored() {
    for nlmsg_type in [0x0301, 0x0302, 0x0303, 0x0200, 0x0a00, 1, 3, 4] {
        assert_eq!(
            framed(&message(nlmsg_type, &[0; 4])),
            QueueParsed::Ignored,
            "{nlmsg_type:#x}"
        );
    }
}

#[test]
fn an_error_is_a_refusal_or_an_acknowledgement() {
    let error = |errno: i32| [&errno.to_ne_bytes()[..], &[0; 16]].concat();
    assert_eq!(framed(&message(2, &error(0))), QueueParsed::Ignored);
    assert_eq!(framed(&message(2, &error(-2))), QueueParsed::Refused(2));
    assert_eq!(framed(&message(2, &error(2))), QueueParsed::Refused(2));
    assert!(matches!(
        framed(&message(2, &error(i32::MIN))),
        QueueParsed::Refused(_)
    ));
    assert_eq!(
        framed(&message(2, &error(-2)[..19])),
        QueueParsed::Malformed
    );
}

#[test]
fn a_truncated_message_gives_its_id_and_nothing_else() {
    let bytes = packet_message(&[PACKET_HDR, (3, &[0, 0, 0, 9]), (PAYLOAD, &[0x45; 40])]);
    for received in 31..bytes.len() {
        let mut packet = QueuePacket {
            mark: 5,
            payload_bytes: 6,
            ..QueuePacket::default()
        };
        assert_eq!(frame(&bytes[..received], &mut packet), QueueParsed::Packet);
        let expected = QueuePacket {
            id: 7,
            ethertype: 0x0800,
            hook: 3,
            truncated: true,
            ..QueuePacket::default()
        };
        assert_eq!(packet, expected, "{received} bytes");
    }
    assert_eq!(framed(&bytes[..30]), QueueParsed::Malformed);
}

#[test]
fn a_truncated_message_that_says_it_has_no_room_for_an_id_has_none() {
    let mut bytes = packet_message(&[PACKET_HDR, (PAYLOAD, &[0x45; 40])]);
    for nlmsg_len in 0..32_u32 {
        bytes[..4].copy_from_slice(&nlmsg_len.to_ne_bytes());
        let expected = if nlmsg_len < 31 {
            QueueParsed::Malformed
        } else {
            QueueParsed::Packet
        };
        assert_eq!(
            truncated(&bytes, &mut QueuePacket::default()),
            expected,
            "{nlmsg_len}"
        );
    }
    bytes[4..6].copy_from_slice(&0x0301_u16.to_ne_bytes());
    assert_eq!(
        truncated(&bytes, &mut QueuePacket::default()),
        QueueParsed::Malformed
    );
}

#[test]
fn a_message_marked_as_truncated_is_not_trusted_to_be_whole() {
    let bytes = packet_message(&[PACKET_HDR, (PAYLOAD, &[0x45; 40])]);
    let mut packet = QueuePacket::default();
    assert_eq!(truncated(&bytes, &mut packet), QueueParsed::Packet);
    assert!(packet.truncated && packet.id == 7 && packet.payload_bytes == 0);
    let other = packet_message(&[(3, &[0; 4]), PACKET_HDR]);
    assert_eq!(truncated(&other, &mut packet), QueueParsed::Malformed);
    assert_eq!(
        truncated(&message(2, &[0; 40]), &mut packet),
        QueueParsed::Malformed
    );
    let long = packet_message(&[(1, &[0; 8])]);
    assert_eq!(truncated(&long, &mut packet), QueueParsed::Malformed);
}

#[test]
fn attributes_of_a_fixed_size_have_just_that() {
    let sizes = [
        (1, 7),
        (3, 4),
        (4, 16),
        (5, 4),
        (6, 4),
        (7, 4),
        (8, 4),
        (9, 12),
        (12, 4),
        (13, 4),
        (14, 4),
        (16, 4),
        (17, 4),
        (18, 4),
    ];
    for (kind, size) in sizes {
        for value_bytes in 0..20 {
            assert_eq!(
                attribute_fits(kind, value_bytes),
                value_bytes == size,
                "type {kind}"
            );
        }
    }
    for kind in [0, 2, PAYLOAD, 11, 15, 19, 20, 21, 22, 63, 64, 0x3fff] {
        assert!(
            attribute_fits(kind, 0) && attribute_fits(kind, 65531),
            "type {kind}"
        );
    }
}

#[test]
fn attributes_are_checked_to_the_last_one() {
    let check = |attributes: &[(u16, &[u8])]| {
        check_attributes(&packet_message(attributes)).map(|extras| extras.cap_len)
    };
    assert_eq!(check(&[PACKET_HDR]), Ok(None));
    assert_eq!(
        check(&[PACKET_HDR, (13, &[0, 1, 0xff, 0xca])]),
        Ok(Some(131018))
    );
    assert_eq!(
        check(&[(13, &[0; 4]), PACKET_HDR, (13, &[0, 0, 0, 9])]),
        Ok(Some(9))
    );
    assert_eq!(check(&[]), Err(Errno::EBADMSG));
    assert_eq!(check(&[(PAYLOAD, &[1, 2, 3])]), Err(Errno::EBADMSG));
    assert_eq!(check(&[PACKET_HDR, (3, &[0; 3])]), Err(Errno::EBADMSG));
    assert_eq!(check(&[PACKET_HDR, (0x3fff, &[0; 5])]), Ok(None));
    // The flag bits of a type (nested, network order) don't count.
    assert_eq!(check(&[(0x8001, PACKET_HDR.1)]), Ok(None));
    assert_eq!(check(&[PACKET_HDR, (0x4003, &[0; 3])]), Err(Errno::EBADMSG));
}

#[test]
fn a_connection_without_a_mark_has_mark_0() {
    assert_eq!(conntrack_mark(&[8, 0, 3, 0, 0, 0, 0, 1]), Ok(0));
    let twice = [8, 0, 8, 0, 0, 0, 0, 1, 8, 0, 8, 0, 0, 0, 0, 2];
    assert_eq!(conntrack_mark(&twice), Ok(2));
    let beyond = [9, 0, 3, 0, 0, 0, 0, 1];
    assert_eq!(conntrack_mark(&beyond), Err(Errno::EBADMSG));
    let small = [7, 0, 8, 0, 0, 0, 1, 0];
    assert_eq!(conntrack_mark(&small), Err(Errno::EBADMSG));
    assert_eq!(conntrack_mark(&twice[..3]), Err(Errno::EBADMSG));
}

#[test]
fn what_the_callback_api_lacks_is_taken_by_the_check() {
    let conntrack = [8, 0, 8, 0, 0x11, 0x22, 0x33, 0x44];
    let attributes: [(u16, &[u8]); 3] = [PACKET_HDR, (12, &[0, 0, 0, 2]), (0x800b, &conntrack)];
    let extras = check_attributes(&packet_message(&attributes)).unwrap();
    assert_eq!((extras.ct_info, extras.cap_len), (2, None));
    assert_eq!((extras.has_ct_mark, extras.ct_mark), (true, 0x1122_3344));
}

#[test]
fn an_attribute_that_leaves_the_message_is_malformed() {
    let bytes = packet_message(&[PACKET_HDR, (PAYLOAD, &[1, 2, 3, 4])]);
    for nla_len in 0..=8_u16 {
        let mut bytes = bytes.clone();
        bytes[32..34].copy_from_slice(&nla_len.to_ne_bytes());
        // Lengths below 4 are too small for the attribute's header. After length 4 the value is read as a header that
        // exceeds the message. With padding, lengths from 5 on end at the message's end.
        let expected = if nla_len > 4 {
            Ok(None)
        } else {
            Err(Errno::EBADMSG)
        };
        let found = check_attributes(&bytes).map(|extras| extras.cap_len);
        assert_eq!(found, expected, "length {nla_len}");
    }
    for nla_len in [9, 12, 0x7fff, u16::MAX] {
        let mut bytes = bytes.clone();
        bytes[32..34].copy_from_slice(&nla_len.to_ne_bytes());
        assert_eq!(
            check_attributes(&bytes),
            Err(Errno::EBADMSG),
            "length {nla_len}"
        );
    }
    // Received bytes after the message's end don't count either.
    let mut shorter = bytes.clone();
    let nlmsg_len = bytes.len() as u32 - 1;
    shorter[..4].copy_from_slice(&nlmsg_len.to_ne_bytes());
    assert_eq!(check_attributes(&shorter), Err(Errno::EBADMSG));
}

#[test]
fn a_failed_verdict_names_its_call() {
    for (kind, call) in [
        (QueueKind::Classic, "sendmsg"),
        (QueueKind::Mnl, "sendto"),
        (QueueKind::Raw, "sendto"),
    ] {
        let settings = QueueSettings {
            number: 0,
            kind,
            copy_bytes: 0,
            batch: 4,
            slot_bytes: 640,
            receive_buffer: 0,
            receive_buffer_required: false,
            queue_length: 1024,
            gso: false,
            fail_open: false,
            uid_gid: false,
            conntrack: false,
            names: false,
        };
        let mut closed = queue::prepare(&settings).expect("buffers");
        let mut batch = Box::<VerdictBatch>::default();
        verdict::batch_begin(&mut batch, Verdict::Drop);
        // After the gap before the first ID.
        verdict::batch_add(&mut batch, 5, Verdict::Accept, 0).expect("room");
        assert_eq!(queue::verdict(&mut closed, &mut batch), Err(Errno::EBADF));
        assert_eq!(closed.failed_call, "sendto", "a gap, without the library");
        batch.sent = 1;
        assert_eq!(queue::verdict(&mut closed, &mut batch), Err(Errno::EBADF));
        assert_eq!(closed.failed_call, call);
    }
}
