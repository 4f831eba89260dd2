// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP segments (RFC 9293, section 3.1), parsed for connections.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionInput, ConnectionKey};
use crate::connection::{option, table};
use crate::packet::{Packet, TCP_HEADER_BYTES};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;

/// Parsed TCP segment.
pub struct Segment<'a> {
    pub key: ConnectionKey,
    /// True if the segment comes from the lower end (by address and port).
    pub is_low: bool,
    pub source_port: u16,
    pub destination_port: u16,
    pub flags: u8,
    /// True for a SYN with the option of Multipath TCP, or whose options are unknown.
    pub is_multipath: bool,
    pub sequence: u32,
    pub acknowledged: u32,
    /// Copied part of its data.
    pub data: &'a [u8],
    /// Length of its data.
    pub length: u32,
    pub input: ConnectionInput,
    pub now_ns: u64,
}

/// Parses a packet's TCP header; None if the header was not copied or is malformed.
pub fn of<'a>(packet: &Packet<'a>, input: &ConnectionInput) -> Option<Segment<'a>> {
    let start = packet.l4_offset as usize;
    let header = packet.bytes.get(start..start + TCP_HEADER_BYTES as usize)?;
    let header: &[u8; TCP_HEADER_BYTES as usize] = header.try_into().ok()?;
    let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, ..] = *header;
    let header_bytes = u32::from(offset >> 4) * 4;
    let available = packet.end.saturating_sub(packet.l4_offset);
    if header_bytes < TCP_HEADER_BYTES || header_bytes > available {
        return None;
    }
    let length = available - header_bytes;
    let options = start + TCP_HEADER_BYTES as usize..start + header_bytes as usize;
    let options = packet.bytes.get(options);
    let data = packet.bytes.get(start + header_bytes as usize..);
    let data = data.unwrap_or_default();
    let (key, is_low) = table::key(packet);
    Some(Segment {
        key,
        is_low,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        flags,
        is_multipath: flags & SYN != 0
            && options.is_none_or(|options| option::has(options, option::MULTIPATH)),
        sequence: u32::from_be_bytes([s0, s1, s2, s3]),
        acknowledged: u32::from_be_bytes([a0, a1, a2, a3]),
        data: data.get(..length as usize).unwrap_or(data),
        length,
        input: *input,
        now_ns: input.now_ns,
    })
}

/// Returns the sequence number of a TCP packet; None if its header was not copied or is malformed.
pub fn sequence(packet: &Packet) -> Option<u32> {
    let segment = of(packet, &ConnectionInput::default());
    segment.map(|segment| segment.sequence)
}

/// Returns true if a segment comes from the client of its connection.
pub fn is_clients(segment: &Segment, connection: &Connection) -> bool {
    segment.is_low == connection.client_low
}
