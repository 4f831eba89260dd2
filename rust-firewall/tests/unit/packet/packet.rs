// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the packet parser with the vectors that both twins share.

use crate::support::vectors;
use crate::support::vectors::{number, Block};
use rust_firewall::packet::{self, Packet};

/// Returns the parser's result for a block, in the format of the block's `expect` line.
fn parse(block: &Block) -> String {
    let bytes = block.bytes();
    let original = block.value("original").map_or(bytes.len() as u32, number);
    let mut packet = Packet::default();
    let status = packet::parse(&bytes, original, &mut packet);
    assert_eq!(packet.bytes, bytes);
    assert_eq!(
        packet.original,
        original.max(bytes.len() as u32),
        "{}",
        block.name()
    );
    let ports = match packet.has_ports {
        true => format!("{}>{}", packet.source_port, packet.destination_port),
        false => "-".to_owned(),
    };
    let flags = match packet.has_tcp_flags {
        true => format!("0x{:02x}", packet.tcp_flags),
        false => "-".to_owned(),
    };
    let icmp = match packet.has_icmp {
        true => format!("{}/{}", packet.icmp_type, packet.icmp_code),
        false => "-".to_owned(),
    };
    format!(
        "status={} version={} protocol={} fragment={} later={} l4={} end={} ports={ports} \
         flags={flags} icmp={icmp}",
        packet::status_name(status),
        packet.version,
        packet.protocol,
        u8::from(packet.fragment),
        u8::from(packet.later_fragment),
        packet.l4_offset,
        packet.end,
    )
}

#[test]
fn every_vector_gives_what_it_expects() {
    let blocks = vectors::read("packets.txt");
    assert!(blocks.len() > 100, "only {} vectors", blocks.len());
    for block in &blocks {
        assert_eq!(
            Some(parse(block).as_str()),
            block.value("expect"),
            "{}",
            block.name()
        );
    }
}

/// Returns the transport header that nf_tables sees in a block's packet, in the format of the block's `expect` line.
fn transport(block: &Block) -> String {
    let bytes = block.bytes();
    let original = block.value("original").map_or(bytes.len() as u32, number);
    let mut packet = Packet::default();
    packet::parse(&bytes, original, &mut packet);
    let protocol = match packet.has_transport {
        true => packet.transport_protocol.to_string(),
        false => "-".to_owned(),
    };
    let names = ["hbh", "rt", "frag", "dst", "mh"];
    let met = |(bit, _): &(u8, _)| packet.extensions & 1 << bit != 0;
    let met: Vec<&str> = (0..).zip(names).filter(met).map(|(_, name)| name).collect();
    let extensions = match met.is_empty() {
        true => "-".to_owned(),
        false => met.join(","),
    };
    let at = packet.transport_offset;
    format!("transport={protocol} at={at} extensions={extensions}")
}

#[test]
fn transport_is_what_nf_tables_sees() {
    let blocks = vectors::read("transport.txt");
    assert!(blocks.len() > 25, "only {} vectors", blocks.len());
    for block in &blocks {
        let got = transport(block);
        assert_eq!(
            Some(got.as_str()),
            block.value("expect"),
            "{}",
            block.name()
        );
    }
}

#[test]
fn every_status_is_met_by_a_vector() {
    let blocks = vectors::read("packets.txt");
    for (status, name) in packet::STATUSES {
        let expected = format!("status={name} ");
        let met = blocks
            .iter()
            .any(|block| block.value("expect").unwrap().starts_with(&expected));
        assert!(met, "no vector for {name}");
        assert_eq!(packet::status_name(status), name);
    }
}

/// With fewer captured bytes the parser returns the packet's status or BeyondCopy, never another status.
#[test]
fn fewer_captured_bytes_only_cut() {
    for block in &vectors::read("packets.txt") {
        let bytes = block.bytes();
        let original = block.value("original").map_or(bytes.len() as u32, number);
        let mut packet = Packet::default();
        let whole = packet::parse(&bytes, original.max(bytes.len() as u32), &mut packet);
        for captured in 0..bytes.len() {
            let original = original.max(bytes.len() as u32);
            let status = packet::parse(&bytes[..captured], original, &mut packet);
            let name = block.name();
            assert!(
                status == whole || status == packet::PacketStatus::BeyondCopy,
                "{name} at {captured}"
            );
        }
    }
}

#[test]
fn malformed_begins_after_cut() {
    let malformed = packet::STATUSES
        .iter()
        .filter(|(status, _)| packet::is_malformed(*status));
    assert_eq!(malformed.count(), packet::STATUS_COUNT - 2);
    assert!(!packet::is_malformed(packet::PacketStatus::Ok));
    assert!(!packet::is_malformed(packet::PacketStatus::BeyondCopy));
    assert!(packet::is_malformed(packet::PacketStatus::Empty));
}
