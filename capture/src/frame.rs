// SPDX-License-Identifier: GPL-2.0-or-later
//! A packet's block in a file: the frame as on the wire, or the packet after a cooked header.

use crate::link::Link;
use crate::packet::{Origin, Packet, Tag};

/// Maximum bytes of a comment with its padding; a longer comment is cut. A prefix of nft has at most 127 bytes;
/// metadata may follow it.
pub const COMMENT_MOST: usize = 256;
/// Maximum number of bytes by which a packet block is longer than its packet: cooked header, tag, comment, and the
/// block's own fields.
pub const OVERHEAD: usize = 20 + 4 + COMMENT_MOST + pcapng::OVERHEAD;

/// Appends the "Linux cooked" header, version 2. A VLAN tag follows the header, which has no field for it.
fn cooked(out: &mut Vec<u8>, origin: &Origin, tag: Option<Tag>) {
    let protocol = tag.map_or(origin.protocol, |tag| tag.tpid);
    out.extend_from_slice(&protocol.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&origin.interface.to_be_bytes());
    out.extend_from_slice(&origin.hardware.to_be_bytes());
    out.extend_from_slice(&[origin.kind, origin.address_bytes]);
    out.extend_from_slice(&origin.address);
    if let Some(tag) = tag {
        out.extend_from_slice(&tag.tci.to_be_bytes());
        out.extend_from_slice(&origin.protocol.to_be_bytes());
    }
}

/// Appends the frame as on the wire, with its VLAN tag after the two MAC addresses; for `Link::Cooked` a cooked header
/// and the packet.
fn frame(out: &mut Vec<u8>, link: Link, packet: &Packet) {
    let bytes = packet.bytes;
    match (link, packet.tag) {
        (Link::Cooked, tag) => {
            cooked(out, &packet.origin, tag);
            out.extend_from_slice(bytes);
        }
        (Link::Ethernet, Some(tag)) if bytes.len() >= 12 => {
            out.extend_from_slice(&bytes[..12]);
            out.extend_from_slice(&tag.tpid.to_be_bytes());
            out.extend_from_slice(&tag.tci.to_be_bytes());
            out.extend_from_slice(&bytes[12..]);
        }
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends a packet block with the number of packets dropped before the packet.
/// - out: has room for the block, so that nothing is allocated.
pub fn block(out: &mut Vec<u8>, interface: u32, link: Link, packet: &Packet, drops: u64) {
    let fields = pcapng::Packet {
        interface,
        time_ns: packet.time_ns,
        cut: packet.original.saturating_sub(packet.bytes.len() as u32),
        drops,
        comment: pcapng::fitting(packet.comment, COMMENT_MOST),
    };
    pcapng::packet(out, &fields, |out| frame(out, link, packet));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_of(bytes: &[u8], tag: Option<Tag>) -> Packet<'_> {
        Packet {
            time_ns: 5_000_000_000,
            original: bytes.len() as u32 + 100,
            bytes,
            tag,
            origin: Origin {
                protocol: 0x0800,
                interface: 3,
                hardware: 512,
                kind: 4,
                ..Origin::default()
            },
            comment: "",
        }
    }

    fn written(link: Link, packet: &Packet) -> Vec<u8> {
        let mut out = Vec::new();
        block(&mut out, 0, link, packet, 1);
        assert!(out.len() <= packet.bytes.len() + OVERHEAD);
        out
    }

    /// Returns the recorded and the original length in a packet block.
    fn lengths(block: &[u8]) -> [u32; 2] {
        [20, 24].map(|at| u32::from_ne_bytes(*block[at..].first_chunk().unwrap()))
    }

    #[test]
    fn a_tag_is_put_back_and_counted_in_both_lengths() {
        let frame: Vec<u8> = (0..30).collect();
        let tag = Some(Tag {
            tpid: 0x8100,
            tci: 0x2005,
        });
        let out = written(Link::Ethernet, &packet_of(&frame, tag));
        assert_eq!(lengths(&out), [34, 134]);
        assert_eq!(&out[28 + 10..28 + 18], [10, 11, 0x81, 0, 0x20, 5, 12, 13]);
        let cooked = written(Link::Cooked, &packet_of(&frame, tag));
        assert_eq!(lengths(&cooked), [54, 154]);
        assert_eq!(cooked[28..30], [0x81, 0]);
        assert_eq!(cooked[48..53], [0x20, 5, 8, 0, 0]);
    }

    #[test]
    fn of_a_comment_whole_characters_are_written() {
        let with = |comment| {
            let packet = Packet {
                comment,
                ..packet_of(&[9; 10], None)
            };
            written(Link::Raw, &packet)
        };
        let long = "\u{20ac}".repeat(COMMENT_MOST);
        assert_eq!(with(&long), with(&long[..COMMENT_MOST - 1]));
    }
}
