// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP segments (RFC 9293, section 3.1), parsed for connections.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionInput, ConnectionKey};
use crate::connection::{option, table};
use crate::packet::{
    Packet, TCP_ACKNOWLEDGED_OFFSET, TCP_FLAGS_OFFSET, TCP_HEADER_BYTES, TCP_LENGTH_OFFSET,
    TCP_SEQUENCE_OFFSET,
};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;

/// Parsed TCP segment.
pub struct Segment<'a> {
    pub key: ConnectionKey,
    /// Hash of the key in the table; set by `tcp::follow`.
    pub hash: u64,
    /// True if the segment comes from the lower end (by address and port).
    pub is_low: bool,
    pub source_port: u16,
    pub destination_port: u16,
    pub flags: u8,
    /// True for a SYN with the option of Multipath TCP, or whose options are unknown.
    pub is_multipath: bool,
    pub sequence: u32,
    pub acknowledged: u32,
    /// Copied part of the segment's data.
    pub data: &'a [u8],
    /// Length of the segment's data in bytes, copied or not.
    pub length: u32,
    pub input: ConnectionInput,
    pub now_ns: u64,
}

/// Parses a packet's TCP header; None if the header was not copied or is malformed.
pub fn of<'a>(packet: &Packet<'a>, input: &ConnectionInput) -> Option<Segment<'a>> {
    let start = packet.l4_offset as usize;
    let header = packet.bytes.get(start..start + TCP_HEADER_BYTES as usize)?;
    let header: &[u8; TCP_HEADER_BYTES as usize] = header.try_into().ok()?;
    let flags = header[TCP_FLAGS_OFFSET];
    let sequence = header.get(TCP_SEQUENCE_OFFSET..)?.first_chunk()?;
    let acknowledged = header.get(TCP_ACKNOWLEDGED_OFFSET..)?.first_chunk()?;
    let header_bytes = u32::from(header[TCP_LENGTH_OFFSET] >> 4) * 4;
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
        hash: 0,
        is_low,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        flags,
        is_multipath: flags & SYN != 0
            && options.is_none_or(|options| option::has(options, option::MULTIPATH)),
        sequence: u32::from_be_bytes(*sequence),
        acknowledged: u32::from_be_bytes(*acknowledged),
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
