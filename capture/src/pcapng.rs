// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes pcapng (draft-ietf-opsawg-pcapng): appends blocks to a buffer, in host order, with times in nanoseconds.

use crate::link::Link;
use crate::packet::{Origin, Packet, Tag};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Bytes of a packet block before the packet: type, length, interface, time, two lengths.
const PACKET_HEAD: usize = 28;
/// Bytes of the option `epb_dropcount` and the end-of-options option.
const DROPS_BYTES: usize = 16;
const DROP_COUNT: u16 = 4;
const COMMENT: u16 = 1;
/// Maximum bytes of a comment with its padding; a longer comment is cut. A prefix of nft has at most 127 bytes; metadata may
/// follow it.
pub const COMMENT_MOST: usize = 256;
/// Maximum by which a block exceeds its packet: head, cooked header, tag, padding, options, length.
pub const OVERHEAD: usize = PACKET_HEAD + 20 + 4 + 3 + DROPS_BYTES + 4 + COMMENT_MOST + 4;

/// Values of a statistics block, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub start_ns: u64,
    pub now_ns: u64,
    pub received: u64,
    pub dropped: u64,
    pub delivered: u64,
}

/// Appends a block: type, length, the output of `body`, and the length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out.extend_from_slice(&length.to_ne_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_ne_bytes());
}

fn pad(out: &mut Vec<u8>, bytes: usize) {
    out.extend_from_slice(&[0; 3][..bytes.wrapping_neg() % 4]);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_ne_bytes());
    out.extend_from_slice(&(value.len() as u16).to_ne_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

/// Encodes a time as two words, the high word first.
fn time_words(time_ns: u64) -> [u8; 8] {
    let mut words = [0; 8];
    words[..4].copy_from_slice(&((time_ns >> 32) as u32).to_ne_bytes());
    words[4..].copy_from_slice(&(time_ns as u32).to_ne_bytes());
    words
}

/// Appends the section header with which a file begins, before its interfaces.
pub fn section(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_ne_bytes());
        out.extend_from_slice(&1u16.to_ne_bytes());
        out.extend_from_slice(&0u16.to_ne_bytes());
        // Section length: unknown.
        out.extend_from_slice(&u64::MAX.to_ne_bytes());
        option(
            out,
            4,
            concat!("Twinwall capture ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        option(out, 0, &[]);
    });
}

/// Appends an interface block; the first interface has number 0. The filter may be empty.
pub fn interface(out: &mut Vec<u8>, name: &str, link: Link, snap_bytes: u32, filter: &str) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&link.number().to_ne_bytes());
        out.extend_from_slice(&0u16.to_ne_bytes());
        out.extend_from_slice(&snap_bytes.to_ne_bytes());
        option(out, 2, name.as_bytes());
        // Time resolution: 10^-9 s.
        option(out, 9, &[9]);
        if !filter.is_empty() {
            // Type 0: a filter string of libpcap.
            let text: Vec<u8> = [&[0], filter.as_bytes()].concat();
            option(out, 11, &text);
        }
        option(out, 0, &[]);
    });
}

pub fn statistics(out: &mut Vec<u8>, interface: u32, totals: &Totals) {
    block(out, STATISTICS, |out| {
        out.extend_from_slice(&interface.to_ne_bytes());
        out.extend_from_slice(&time_words(totals.now_ns));
        option(out, 2, &time_words(totals.start_ns));
        option(out, 3, &time_words(totals.now_ns));
        option(out, 4, &totals.received.to_ne_bytes());
        option(out, 5, &totals.dropped.to_ne_bytes());
        option(out, 8, &totals.delivered.to_ne_bytes());
        option(out, 0, &[]);
    });
}

/// Appends a packet's options: the number of packets missing before it, and a comment.
fn packet_options(out: &mut Vec<u8>, drops: u64, comment: &str) {
    if drops > 0 {
        option(out, DROP_COUNT, &drops.to_ne_bytes());
    }
    if !comment.is_empty() {
        let ends = (0..=COMMENT_MOST.min(comment.len())).rev();
        let most = ends.into_iter().find(|end| comment.is_char_boundary(*end));
        option(out, COMMENT, &comment.as_bytes()[..most.unwrap_or(0)]);
    }
    if drops > 0 || !comment.is_empty() {
        option(out, 0, &[]);
    }
}

/// Appends the cooked header, version 2; a tag follows it, since the header has no field for it.
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

/// Appends the frame as on the wire, with its tag after the two addresses.
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

/// Appends a packet block with the number of packets dropped before it. `out` has room for it.
pub fn packet(out: &mut Vec<u8>, interface: u32, link: Link, packet: &Packet, drops: u64) {
    let start = out.len();
    // One write of fixed size is cheaper than seven.
    let mut head = [0; PACKET_HEAD];
    head[..4].copy_from_slice(&PACKET.to_ne_bytes());
    head[8..12].copy_from_slice(&interface.to_ne_bytes());
    head[12..20].copy_from_slice(&time_words(packet.time_ns));
    out.extend_from_slice(&head);
    frame(out, link, packet);
    let captured = out.len() - start - PACKET_HEAD;
    pad(out, captured);
    packet_options(out, drops, packet.comment);
    let original = packet.original + (captured - packet.bytes.len()) as u32;
    let length = (out.len() - start + 4) as u32;
    out.extend_from_slice(&length.to_ne_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_ne_bytes());
    out[start + 20..start + 24].copy_from_slice(&(captured as u32).to_ne_bytes());
    out[start + 24..start + 28].copy_from_slice(&original.to_ne_bytes());
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Returns the number of whole packet blocks in the first `limit` bytes, and their length in bytes.
pub fn whole(blocks: &[u8], limit: usize) -> (u64, usize) {
    let (mut packets, mut at) = (0, 0);
    while at + 8 <= limit {
        let end = at + word(blocks, at + 4);
        if end > limit {
            break;
        }
        (packets, at) = (packets + 1, end);
    }
    (packets, at)
}

/// Writes the first of these packet blocks to `out`, with `gap` added to its drop count. Returns the offset of the second
/// block.
pub fn behind_gap(blocks: &[u8], gap: u64, out: &mut Vec<u8>) -> usize {
    let length = word(blocks, 4);
    let captured = word(blocks, 20).next_multiple_of(4);
    let (body, options) = (&blocks[..PACKET_HEAD + captured], PACKET_HEAD + captured);
    let given = &blocks[options..length - 4];
    // The drop count is the first option, if present.
    let (told, rest) = match given.split_first_chunk::<12>() {
        Some((head, rest)) if head[..2] == DROP_COUNT.to_ne_bytes() => {
            let drops = head[4..].try_into().expect("eight bytes");
            (u64::from_ne_bytes(drops), rest)
        }
        _ => (0, given),
    };
    out.clear();
    out.extend_from_slice(body);
    option(out, DROP_COUNT, &(told + gap).to_ne_bytes());
    match rest {
        [] => option(out, 0, &[]),
        rest => out.extend_from_slice(rest),
    }
    let new = (out.len() + 4) as u32;
    out.extend_from_slice(&new.to_ne_bytes());
    out[4..8].copy_from_slice(&new.to_ne_bytes());
    length
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

    fn written(link: Link, bytes: &[u8], tag: Option<Tag>, drops: u64) -> Vec<u8> {
        let mut out = Vec::new();
        packet(&mut out, 0, link, &packet_of(bytes, tag), drops);
        assert_eq!(word(&out, 4), out.len());
        assert_eq!(word(&out, out.len() - 4), out.len());
        out
    }

    #[test]
    fn a_tag_is_put_back_and_counted_in_both_lengths() {
        let frame: Vec<u8> = (0..30).collect();
        let tag = Some(Tag {
            tpid: 0x8100,
            tci: 0x2005,
        });
        let out = written(Link::Ethernet, &frame, tag, 0);
        assert_eq!((word(&out, 20), word(&out, 24)), (34, 134));
        assert_eq!(&out[28 + 10..28 + 18], [10, 11, 0x81, 0, 0x20, 5, 12, 13]);
        let cooked = written(Link::Cooked, &frame, tag, 0);
        assert_eq!(word(&cooked, 20), 54);
        assert_eq!(cooked[28..30], [0x81, 0]);
        assert_eq!(cooked[48..53], [0x20, 5, 8, 0, 0]);
    }

    #[test]
    fn blocks_are_counted_as_far_as_they_are_whole() {
        let mut blocks = written(Link::Raw, &[1; 61], None, 0);
        let first = blocks.len();
        blocks.extend(written(Link::Raw, &[1; 3], None, 7));
        assert_eq!(whole(&blocks, blocks.len()), (2, blocks.len()));
        assert_eq!(whole(&blocks, blocks.len() - 1), (1, first));
        assert_eq!(whole(&blocks, first - 1), (0, 0));
        assert_eq!(whole(&blocks, 3), (0, 0));
    }

    #[test]
    fn a_comment_stays_behind_the_drops() {
        let with = |drops, comment| {
            let (mut out, mut packet) = (Vec::new(), packet_of(&[9; 10], None));
            packet.comment = comment;
            super::packet(&mut out, 0, Link::Raw, &packet, drops);
            out
        };
        let (mut blocks, mut out) = (with(0, "refused: \u{e4}"), Vec::new());
        assert!(blocks
            .windows(11)
            .any(|part| part == "refused: \u{e4}".as_bytes()));
        blocks.extend(with(0, ""));
        behind_gap(&blocks, 5, &mut out);
        assert_eq!(out, with(5, "refused: \u{e4}"));
        behind_gap(&out.clone(), 7, &mut out);
        assert_eq!(out, with(12, "refused: \u{e4}"));
        // As much as fits, in whole characters.
        let long = "\u{20ac}".repeat(COMMENT_MOST);
        assert!(with(1, &long).len() <= OVERHEAD + 10);
        assert_eq!(with(1, &long), with(1, &long[..COMMENT_MOST - 1]));
    }

    #[test]
    fn gaps_add_up() {
        let mut out = Vec::new();
        for (told, wanted) in [(0, 5), (7, 12)] {
            let mut blocks = written(Link::Raw, &[9; 10], None, told);
            let first = blocks.len();
            blocks.extend(written(Link::Raw, &[9; 10], None, 0));
            assert_eq!(behind_gap(&blocks, 5, &mut out), first);
            assert_eq!(out, written(Link::Raw, &[9; 10], None, wanted));
        }
    }
}
