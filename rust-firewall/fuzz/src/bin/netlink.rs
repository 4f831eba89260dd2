// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of `queue::raw::parse` and `queue::mnl::parse`: they must never panic and never read past the received bytes.
//! Their results must be equal in each field, whatever the packet contained before.
//!
//! Input: one netlink message, as received from the socket.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use rust_firewall::queue;
use rust_firewall::queue::{QueuePacket, QueueParsed};
use rust_firewall_fuzz::guarded::Guarded;

/// Size of nlmsghdr and nfgenmsg in bytes.
const MESSAGE_BYTES: usize = 20;
/// Length in bytes of a message whose only attribute is NFQA_PACKET_HDR, without padding.
const SHORTEST_PACKET_BYTES: usize = MESSAGE_BYTES + 4 + 7;
/// Alignment of a message in bytes, because libmnl reads headers in place.
const MNL_ALIGNMENT: usize = 4;

/// Result of `queue::raw::parse` or `queue::mnl::parse` for a message, and the packet if the message has one.
#[derive(Debug, PartialEq)]
struct Outcome {
    parsed: QueueParsed,
    packet: Option<QueuePacket>,
}

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new());
}

fuzz_target!(|input: &[u8]| {
    MEMORY.with_borrow_mut(|memory| {
        let raw = {
            let bytes = memory.copy(input, 1);
            let raw = outcome(queue::raw::parse, bytes, QueuePacket::default());
            check_packet(&raw, bytes);
            raw
        };
        let bytes = memory.copy(input, MNL_ALIGNMENT);
        let mnl = outcome(queue::mnl::parse, bytes, used_packet());
        assert_eq!(raw, mnl, "raw and mnl differ");
    });
});

type Parse = fn(&[u8], &mut QueuePacket) -> QueueParsed;

fn outcome(parse: Parse, bytes: &[u8], mut packet: QueuePacket) -> Outcome {
    let parsed = parse(bytes, &mut packet);
    if packet.payload_bytes == 0 {
        // Without a payload the offset has no meaning.
        packet.payload_offset = 0;
    }
    let packet = (parsed == QueueParsed::Packet).then_some(packet);
    Outcome { parsed, packet }
}

/// Returns a packet with values in all members, as if an earlier message had been parsed into it.
fn used_packet() -> QueuePacket {
    QueuePacket {
        id: 0x0101_0101,
        ethertype: 0x0202,
        hook: 3,
        truncated: true,
        spoiled: true,
        nameless: true,
        mark: 4,
        indev: 5,
        outdev: 6,
        uid: 7,
        gid: 8,
        ct_info: 13,
        has_ct_mark: true,
        ct_mark: 14,
        skb_info: 9,
        payload_offset: 10,
        payload_bytes: 11,
        original_bytes: 12,
    }
}

/// Checks that the payload lies within the message, that a truncated packet has only id, ethertype and hook, and that
/// the message is long enough for the id.
fn check_packet(outcome: &Outcome, bytes: &[u8]) {
    let Some(packet) = &outcome.packet else {
        return;
    };
    assert!(bytes.len() >= SHORTEST_PACKET_BYTES);
    let nlmsg_len = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    assert_eq!(packet.truncated, nlmsg_len > bytes.len());
    if packet.payload_bytes > 0 {
        let end = packet.payload_offset + packet.payload_bytes as usize;
        assert!(
            packet.payload_offset >= MESSAGE_BYTES + 4 && end <= nlmsg_len && end <= bytes.len()
        );
    }
    if packet.truncated {
        let QueuePacket {
            id,
            ethertype,
            hook,
            ..
        } = *packet;
        let bare = QueuePacket {
            id,
            ethertype,
            hook,
            truncated: true,
            ..QueuePacket::default()
        };
        assert_eq!(*packet, bare);
    }
}
