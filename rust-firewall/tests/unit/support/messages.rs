// SPDX-License-Identifier: GPL-2.0-or-later
//! Netlink messages for tests: from the shared vectors or composed here, and a parser's result as text.

use rust_firewall::queue::{QueuePacket, QueueParsed, UNKNOWN};

use crate::support::vectors::{number, Block};

/// Parser of a queue backend: parses a netlink message into a packet.
pub type Parse = fn(&[u8], &mut QueuePacket) -> QueueParsed;

/// Returns the received bytes of a vector, which may be fewer than its message has.
pub fn received(block: &Block) -> Vec<u8> {
    let mut bytes = block.bytes();
    if let Some(received) = block.value("received") {
        bytes.truncate(number(received) as usize);
    }
    bytes
}

/// Returns a number as text; "-" if it is missing.
fn known(is_known: bool, value: u32) -> String {
    match is_known {
        true => value.to_string(),
        false => "-".to_owned(),
    }
}

/// Returns a parser's result for a message, in the format of an `expect` line.
pub fn told(parse: Parse, bytes: &[u8]) -> String {
    let mut packet = QueuePacket::default();
    match parse(bytes, &mut packet) {
        QueueParsed::Packet => format!(
            "result=packet id={} ethertype=0x{:04x} hook={} mark={} indev={} outdev={} uid={} \
             gid={} ct_info={} ct_mark={} payload={} original={} truncated={}",
            packet.id,
            packet.ethertype,
            packet.hook,
            packet.mark,
            packet.indev,
            packet.outdev,
            known(packet.uid != UNKNOWN, packet.uid),
            known(packet.gid != UNKNOWN, packet.gid),
            known(packet.ct_info != UNKNOWN, packet.ct_info),
            known(packet.has_ct_mark, packet.ct_mark),
            packet.payload_bytes,
            packet.original_bytes,
            u8::from(packet.truncated),
        ),
        QueueParsed::Ignored => "result=ignored".to_owned(),
        QueueParsed::Malformed => "result=malformed".to_owned(),
        QueueParsed::Refused(error) => format!("result=refused errno={error}"),
    }
}

/// Returns a packet message with attributes, each given by its type and value. All attributes except the last are
/// padded.
pub fn packet_message(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    for (kind, value) in attributes {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
    }
    let nlmsg_len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&nlmsg_len.to_ne_bytes());
    bytes[4..6].copy_from_slice(&0x0300_u16.to_ne_bytes());
    bytes
}

/// Attribute NFQA_PACKET_HDR: packet ID 7, IPv4, hook NF_INET_LOCAL_OUT.
pub const PACKET_HDR: (u16, &[u8]) = (1, &[0, 0, 0, 7, 8, 0, 3]);
pub const PAYLOAD: u16 = 10;

/// Generator of pseudorandom numbers that are the same in each run (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
