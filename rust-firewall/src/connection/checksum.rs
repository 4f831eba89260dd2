// SPDX-License-Identifier: GPL-2.0-or-later
//! The checksum of TCP and UDP (RFC 9293, section 3.1; RFC 768; RFC 8200, section 8.1).
#![deny(clippy::indexing_slicing)]

use crate::packet::{self, Packet, LENGTH_MAX};

const UDP: u8 = libc::IPPROTO_UDP as u8;
/// Offset of the checksum in a TCP header.
const TCP_PLACE: usize = 16;
/// Offset of the checksum in a UDP header.
const UDP_PLACE: usize = 6;
/// Offset of the length in a UDP header.
const UDP_LENGTH: usize = 4;

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

/// Returns the sum of all words that a packet's checksum covers, including the checksum itself.
/// - ends: source and destination address.
/// - bytes: the packet from its layer 4 header on.
fn total(packet: &Packet, ends: (&[u8], &[u8]), bytes: &[u8]) -> u64 {
    u64::from(packet.protocol) + bytes.len() as u64 + sum(ends.0) + sum(ends.1) + sum(bytes)
}

/// Returns a 16-bit sum that is equal to a sum modulo 0xffff. It is 0 only if the sum is 0.
fn fold(mut total: u64) -> u16 {
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
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
    fold(total(packet, ends, bytes)) == 0xffff
}

/// Returns the number of bytes that a packet's checksum covers: for TCP those up to the packet's end, for UDP the
/// length in the UDP header. Returns None if the packet was cut, or if the UDP length goes beyond the packet's end.
fn covered(packet: &Packet) -> Option<usize> {
    let bytes = packet
        .bytes
        .get(packet.l4_offset as usize..packet.end as usize)?;
    let size = match (packet.protocol, bytes.get(UDP_LENGTH..UDP_LENGTH + 2)) {
        (UDP, Some(&[high, low])) => usize::from(u16::from_be_bytes([high, low])),
        _ => bytes.len(),
    };
    (size <= bytes.len()).then_some(size)
}

/// Returns the offset of a packet's checksum from the IP header on, and its correct value. For UDP without a checksum
/// the value is 0. Returns None if the packet was cut, or if its UDP length is invalid.
/// - packet: TCP or UDP with its layer 4 header, not a fragment.
pub fn correct(packet: &Packet) -> Option<(u32, u16)> {
    let start = packet.l4_offset as usize;
    let place = match packet.protocol {
        UDP => UDP_PLACE,
        _ => TCP_PLACE,
    };
    let bytes = packet.bytes.get(start..start + covered(packet)?)?;
    let ends = packet::addresses(packet)?;
    let &[high, low] = bytes.get(place..place + 2)? else {
        return None;
    };
    let present = u16::from_be_bytes([high, low]);
    let others = total(packet, ends, bytes) + u64::from(!present);
    let checksum = match (packet.protocol, !fold(others)) {
        (UDP, _) if present == 0 => 0,
        (UDP, 0) => 0xffff,
        (_, checksum) => checksum,
    };
    Some(((start + place) as u32, checksum))
}
