// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes pcapng (draft-ietf-opsawg-pcapng): appends blocks to a buffer, in host order, with times in nanoseconds.

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
/// Maximum bytes of an option's value.
const LONGEST: usize = u16::MAX as usize;
/// Maximum number of bytes by which a block is longer than its packet and comment: head, paddings, options, length.
pub const OVERHEAD: usize = PACKET_HEAD + 3 + DROPS_BYTES + 4 + 3 + 4;

/// Values of an interface statistics block. Packets are counted from `start_ns` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub start_ns: u64,
    pub now_ns: u64,
    pub received: u64,
    pub dropped: u64,
    pub delivered: u64,
}

/// Fields of an interface block: an interface whose packets a file contains.
pub struct Interface<'a> {
    /// Name of the interface; empty = none.
    pub name: &'a str,
    /// Link type (LINKTYPE_*).
    pub link: u16,
    /// Maximum number of bytes of a packet that are recorded; 0 = all.
    pub snap_bytes: u32,
    /// Filter in libpcap's language; empty = none.
    pub filter: &'a str,
}

/// Fields of a packet block, except the packet's bytes, which the caller of [`packet`] appends.
pub struct Packet<'a> {
    /// Number of the packet's interface: its position among the file's interface blocks, from 0.
    pub interface: u32,
    /// Time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Bytes of the packet that are not recorded.
    pub cut: u32,
    /// Number of packets that are missing before this packet.
    pub drops: u64,
    /// Comment; empty = none. At most 65,535 bytes of it are written.
    pub comment: &'a str,
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
/// - application: the program that writes the file.
pub fn section(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_ne_bytes());
        out.extend_from_slice(&1u16.to_ne_bytes());
        out.extend_from_slice(&0u16.to_ne_bytes());
        // Section length: unknown.
        out.extend_from_slice(&u64::MAX.to_ne_bytes());
        option(out, 4, application.as_bytes());
        option(out, 0, &[]);
    });
}

/// Appends an interface block; the first interface has number 0.
pub fn interface(out: &mut Vec<u8>, interface: &Interface) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&interface.link.to_ne_bytes());
        out.extend_from_slice(&0u16.to_ne_bytes());
        out.extend_from_slice(&interface.snap_bytes.to_ne_bytes());
        if !interface.name.is_empty() {
            option(out, 2, interface.name.as_bytes());
        }
        // Time resolution: 10^-9 s.
        option(out, 9, &[9]);
        if !interface.filter.is_empty() {
            // Type 0: a filter string of libpcap.
            let text: Vec<u8> = [&[0], interface.filter.as_bytes()].concat();
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

/// Returns the longest beginning of a comment that fits into `bytes`, in whole characters.
pub fn fitting(comment: &str, bytes: usize) -> &str {
    let mut ends = (0..=bytes.min(comment.len())).rev();
    let end = ends.find(|end| comment.is_char_boundary(*end));
    &comment[..end.unwrap_or(0)]
}

/// Appends a packet's options: the number of packets missing before it, and a comment.
fn packet_options(out: &mut Vec<u8>, drops: u64, comment: &str) {
    if drops > 0 {
        option(out, DROP_COUNT, &drops.to_ne_bytes());
    }
    if !comment.is_empty() {
        option(out, COMMENT, fitting(comment, LONGEST).as_bytes());
    }
    if drops > 0 || !comment.is_empty() {
        option(out, 0, &[]);
    }
}

/// Appends a packet block. Allocates nothing if `out` has room for it.
/// - frame: appends the packet's bytes.
pub fn packet(out: &mut Vec<u8>, packet: &Packet, frame: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // One write of fixed size is cheaper than seven.
    let mut head = [0; PACKET_HEAD];
    head[..4].copy_from_slice(&PACKET.to_ne_bytes());
    head[8..12].copy_from_slice(&packet.interface.to_ne_bytes());
    head[12..20].copy_from_slice(&time_words(packet.time_ns));
    out.extend_from_slice(&head);
    frame(out);
    let captured = (out.len() - start - PACKET_HEAD) as u32;
    pad(out, captured as usize);
    packet_options(out, packet.drops, packet.comment);
    let original = captured + packet.cut;
    let length = (out.len() - start + 4) as u32;
    out.extend_from_slice(&length.to_ne_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_ne_bytes());
    out[start + 20..start + 24].copy_from_slice(&captured.to_ne_bytes());
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

/// Writes the first packet block of `blocks` to `out`, with `gap` added to its drop count. The old content of `out` is
/// removed. Returns the offset of the second block.
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

    fn written(bytes: &[u8], drops: u64, comment: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = Packet {
            interface: 0,
            time_ns: 5_000_000_000,
            cut: 100,
            drops,
            comment,
        };
        packet(&mut out, &fields, |out| out.extend_from_slice(bytes));
        assert_eq!(word(&out, 4), out.len());
        assert_eq!(word(&out, out.len() - 4), out.len());
        assert_eq!(word(&out, 20), bytes.len());
        assert_eq!(word(&out, 24), bytes.len() + 100);
        assert!(out.len() <= bytes.len() + comment.len() + OVERHEAD);
        out
    }

    #[test]
    fn blocks_are_counted_as_far_as_they_are_whole() {
        let mut blocks = written(&[1; 61], 0, "");
        let first = blocks.len();
        blocks.extend(written(&[1; 3], 7, ""));
        assert_eq!(whole(&blocks, blocks.len()), (2, blocks.len()));
        assert_eq!(whole(&blocks, blocks.len() - 1), (1, first));
        assert_eq!(whole(&blocks, first - 1), (0, 0));
        assert_eq!(whole(&blocks, 3), (0, 0));
    }

    #[test]
    fn a_comment_stays_behind_the_drops() {
        let with = |drops, comment| written(&[9; 10], drops, comment);
        let (mut blocks, mut out) = (with(0, "refused: \u{e4}"), Vec::new());
        assert!(blocks
            .windows(11)
            .any(|part| part == "refused: \u{e4}".as_bytes()));
        blocks.extend(with(0, ""));
        behind_gap(&blocks, 5, &mut out);
        assert_eq!(out, with(5, "refused: \u{e4}"));
        behind_gap(&out.clone(), 7, &mut out);
        assert_eq!(out, with(12, "refused: \u{e4}"));
    }

    #[test]
    fn gaps_add_up() {
        let mut out = Vec::new();
        for (told, wanted) in [(0, 5), (7, 12)] {
            let mut blocks = written(&[9; 10], told, "");
            let first = blocks.len();
            blocks.extend(written(&[9; 10], 0, ""));
            assert_eq!(behind_gap(&blocks, 5, &mut out), first);
            assert_eq!(out, written(&[9; 10], wanted, ""));
        }
    }
}
