// SPDX-License-Identifier: GPL-2.0-or-later
//! The checksum of TCP and UDP (RFC 9293, section 3.1; RFC 768; RFC 8200, section 8.1).
#![deny(clippy::indexing_slicing)]

use crate::packet::{self, Packet, LENGTH_MAX};

const UDP: u8 = libc::IPPROTO_UDP as u8;
/// Offset of the checksum in a UDP header.
const UDP_PLACE: usize = 6;

/// Returns a sum that is equal, modulo 0xffff, to the sum of the big-endian 16-bit words; a final odd byte is padded
/// with 0.
fn sum(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    let mut words = bytes.chunks_exact(4);
    for word in words.by_ref() {
        let word: [u8; 4] = word.try_into().unwrap_or_default();
        sum += u64::from(u32::from_be_bytes(word));
    }
    let mut last = [0; 4];
    for (place, byte) in last.iter_mut().zip(words.remainder()) {
        *place = *byte;
    }
    sum + u64::from(u32::from_be_bytes(last))
}

/// Returns true if a packet's checksum is correct, or can't be checked: the packet was cut, has no checksum, or is too
/// long for a checksum.
/// - packet: TCP or UDP with its layer 4 header, not a fragment.
/// - size: number of bytes from the layer 4 header on.
pub fn is_right(packet: &Packet, size: u32) -> bool {
    let start = packet.l4_offset as usize;
    let bytes = packet.bytes.get(start..start + size as usize);
    let (Some(bytes), Some(ends)) = (bytes, packet::addresses(packet)) else {
        return true;
    };
    let is_none = packet.protocol == UDP && bytes.get(UDP_PLACE..UDP_PLACE + 2) == Some(&[0, 0]);
    if is_none || size > LENGTH_MAX {
        return true;
    }
    let pseudo = u64::from(packet.protocol) + u64::from(size);
    let mut total = sum(ends.0) + sum(ends.1) + pseudo + sum(bytes);
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    total == 0xffff
}
