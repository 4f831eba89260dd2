// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of `packet::parse`: it must never panic and never read past the captured bytes. Its fields must lie within
//! the packet and be consistent. With fewer captured bytes, the status must stay the same or become `BeyondCopy`.
//!
//! Input: the packet's length in the kernel (4 bytes, little-endian), then its captured bytes.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::{fuzz_target, Corpus};
use rust_firewall::packet::{self, Packet, PacketStatus};
use rust_firewall_fuzz::guarded::Guarded;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new());
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((original, bytes)) = input.split_first_chunk() else {
        return Corpus::Reject;
    };
    let original = u32::from_le_bytes(*original);
    MEMORY.with_borrow_mut(|memory| {
        let bytes = memory.copy(bytes, 1);
        let mut packet = Packet::default();
        let status = packet::parse(bytes, original, &mut packet);
        check_lengths(status, &packet, bytes, original);
        check_layer4(status, &packet);
        check_malformed(status, &packet);
        check_shorter_copy(status, bytes, original);
    });
    Corpus::Keep
});

/// Checks that offsets lie within lengths, and that the fields of fragments are consistent.
fn check_lengths(status: PacketStatus, packet: &Packet, bytes: &[u8], original: u32) {
    assert_eq!(packet.bytes, bytes);
    assert_eq!(packet.original, original.max(bytes.len() as u32));
    assert!(matches!(packet.version, 0 | 4 | 6));
    assert!(packet.end <= packet.original);
    assert!(packet.l4_offset <= packet.end);
    match packet.version {
        4 if packet.l4_offset > 0 => assert!((20..=60).contains(&packet.l4_offset)),
        6 if packet.l4_offset > 0 => assert!(packet.l4_offset >= 40),
        _ => assert_eq!(packet.l4_offset, 0),
    }
    if packet.later_fragment {
        assert!(packet.fragment);
        assert_eq!((status, packet.l4_offset), (PacketStatus::Ok, 0));
    }
}

/// Checks that a field of layer 4 is present if and only if its bytes lie before the packet's end and within the
/// captured bytes.
fn check_layer4(status: PacketStatus, packet: &Packet) {
    let reached = packet.l4_offset > 0;
    let layer4 = packet.bytes.get(packet.l4_offset as usize..).unwrap_or(&[]);
    let readable = layer4.len().min((packet.end - packet.l4_offset) as usize);
    let layer4 = &layer4[..readable];

    let has_ports = reached && matches!(packet.protocol, TCP | UDP) && readable >= 4;
    assert_eq!(packet.has_ports, has_ports);
    if has_ports {
        assert_eq!(packet.source_port.to_be_bytes(), layer4[..2]);
        assert_eq!(packet.destination_port.to_be_bytes(), layer4[2..4]);
    }
    let has_tcp_flags = reached && packet.protocol == TCP && readable >= 20;
    assert_eq!(packet.has_tcp_flags, has_tcp_flags);
    if has_tcp_flags {
        assert_eq!(packet.tcp_flags, layer4[13]);
    }
    let icmp = if packet.version == 6 { ICMPV6 } else { ICMP };
    let has_icmp = reached && packet.protocol == icmp && readable >= 2;
    assert_eq!(packet.has_icmp, has_icmp);
    if has_icmp {
        assert_eq!([packet.icmp_type, packet.icmp_code], layer4[..2]);
    }
    if reached && status == PacketStatus::Ok {
        let needed = match packet.protocol {
            TCP => 20,
            UDP => 8,
            protocol if protocol == icmp => 8,
            _ => 0,
        };
        assert!(readable >= needed);
    }
}

/// Checks that the status agrees with the version and protocol that were found.
fn check_malformed(status: PacketStatus, packet: &Packet) {
    let malformed = packet::is_malformed(status);
    assert_eq!(malformed, status >= PacketStatus::Empty);
    let name = packet::status_name(status);
    let owner = name.split('-').next().unwrap_or_default();
    match owner {
        "ipv4" => assert_eq!(packet.version, 4),
        "ipv6" => assert_eq!(packet.version, 6),
        "tcp" => assert_eq!(packet.protocol, TCP),
        "udp" => assert_eq!(packet.protocol, UDP),
        "icmp" => assert_eq!((packet.version, packet.protocol), (4, ICMP)),
        "icmpv6" => assert_eq!((packet.version, packet.protocol), (6, ICMPV6)),
        "empty" | "version" => assert_eq!(packet.version, 0),
        _ => assert!(!malformed, "{name}"),
    }
}

/// Checks that the status of the same packet with fewer captured bytes is the same, or `BeyondCopy`.
fn check_shorter_copy(status: PacketStatus, bytes: &[u8], original: u32) {
    let original = original.max(bytes.len() as u32);
    let kept = original as usize % (bytes.len() + 1);
    let mut packet = Packet::default();
    let shorter = packet::parse(&bytes[..kept], original, &mut packet);
    assert!(
        shorter == status || shorter == PacketStatus::BeyondCopy,
        "{} bytes give {status:?}, {kept} give {shorter:?}",
        bytes.len(),
    );
}
