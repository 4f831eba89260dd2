// SPDX-License-Identifier: GPL-2.0-or-later
//! IP packets of the client: IPv4 (RFC 791) and IPv6 (RFC 8200), whole or in fragments.

use std::net::IpAddr;

use super::net::{CLIENT, CLIENT_6, SERVER, SERVER_6};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
/// Types of IPv6 extension headers.
pub const HOP_BY_HOP: u8 = 0;
pub const FRAGMENT: u8 = 44;
pub const DESTINATION: u8 = 60;

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

/// Headers around a packet's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    pub ttl: u8,
    /// IPv6 extension headers in order, 8 bytes each. A FRAGMENT header here is that of an unfragmented packet (offset
    /// 0).
    pub extensions: Vec<u8>,
    /// Bytes of each fragment (a multiple of 8); None = not fragmented.
    pub fragments_of: Option<usize>,
    /// True if the last fragment is sent first.
    pub fragments_reversed: bool,
    /// True if the client forges a packet from the server to the client: the addresses are exchanged.
    pub is_forged: bool,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside {
            ttl: 64,
            extensions: Vec::new(),
            fragments_of: None,
            fragments_reversed: false,
            is_forged: false,
        }
    }
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

impl Version {
    /// Returns the addresses of the client and of the server, in network byte order.
    fn ends(self) -> (Vec<u8>, Vec<u8>) {
        let (client, server): (IpAddr, IpAddr) = match self {
            Version::V4 => (CLIENT.into(), SERVER.into()),
            Version::V6 => (CLIENT_6.into(), SERVER_6.into()),
        };
        (bytes_of(client), bytes_of(server))
    }
}

/// Returns the Internet checksum of bytes (RFC 1071).
pub fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let mut sum = 0_u32;
    for word in bytes.chunks(2) {
        let low = word.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([word[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Returns the checksum of the client's segment or datagram, whose checksum field is 0 (RFC 9293, section 3.1; RFC
/// 768). The sum is that of IPv6 (RFC 8200, section 8.1), whose words are those of IPv4 with zeros between.
pub fn checksum_of(version: Version, protocol: u8, bytes: &[u8]) -> [u8; 2] {
    let (client, server) = version.ends();
    let length = (bytes.len() as u32).to_be_bytes();
    checksum(&[&client, &server, &length, &[0, 0, 0, protocol], bytes])
}

/// Returns the sum, not inverted, of the pseudo header of the client's segment: the checksum's start value.
pub fn pseudo_sum(version: Version, protocol: u8, bytes: usize) -> [u8; 2] {
    let (client, server) = version.ends();
    let length = (bytes as u32).to_be_bytes();
    checksum(&[&client, &server, &length, &[0, 0, 0, protocol]]).map(|byte| !byte)
}

/// Returns a UDP header with its data, without an IP header. The checksum is right in both directions between client
/// and server.
pub fn datagram(version: Version, (from, to): (u16, u16), data: &[u8]) -> Vec<u8> {
    let words = [from, to, 8 + data.len() as u16, 0].map(u16::to_be_bytes);
    let mut udp = [&words.concat()[..], data].concat();
    let sum = checksum_of(version, UDP, &udp);
    udp[6..8].copy_from_slice(&sum);
    udp
}

/// Returns an IPv4 packet.
/// - at: offset of a fragment's bytes.
/// - more: true if more fragments follow.
fn ipv4(id: u16, at: usize, more: bool, ttl: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (client, server) = Version::V4.ends();
    let fragment = (at / 8) as u16 | if more { 0x2000 } else { 0 };
    let length = (IPV4_BYTES + payload.len()) as u16;
    let mut header = [
        &[0x45, 0][..],
        &length.to_be_bytes(),
        &id.to_be_bytes(),
        &fragment.to_be_bytes(),
        &[ttl, protocol, 0, 0],
        &client,
        &server,
    ]
    .concat();
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    [&header, payload].concat()
}

/// Returns an IPv6 packet.
fn ipv6(ttl: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let (client, server) = Version::V6.ends();
    let length = (payload.len() as u16).to_be_bytes();
    [
        &[0x60, 0, 0, 0][..],
        &length,
        &[next, ttl],
        &client,
        &server,
        payload,
    ]
    .concat()
}

/// Returns an IPv6 fragment header (RFC 8200, section 4.5) and the bytes after it.
/// - at: offset of the bytes in the unfragmented packet; a multiple of 8.
/// - more: true if more fragments follow.
fn ipv6_fragment(id: u16, at: usize, more: bool, next: u8, part: &[u8]) -> Vec<u8> {
    let place = (at as u16 | u16::from(more)).to_be_bytes();
    let id = u32::from(id).to_be_bytes();
    [&[next, 0][..], &place, &id, part].concat()
}

/// Inserts extension headers before a packet's payload. Returns the type of the first header (`protocol` without
/// extension headers), and the headers with the payload.
fn extended(id: u16, extensions: &[u8], protocol: u8, payload: &[u8]) -> (u8, Vec<u8>) {
    let start = (protocol, payload.to_vec());
    extensions
        .iter()
        .rev()
        .fold(start, |(next, rest), &kind| match kind {
            FRAGMENT => (kind, ipv6_fragment(id, 0, false, next, &rest)),
            // The header has one option: padding.
            _ => (kind, [&[next, 0, 1, 4, 0, 0, 0, 0][..], &rest].concat()),
        })
}

/// Returns the IP packets that carry a payload: one packet, or its fragments.
/// - id: identification of the fragments.
pub fn packets(
    version: Version,
    protocol: u8,
    id: u16,
    outside: &Outside,
    payload: &[u8],
) -> Vec<Vec<u8>> {
    let mut packets = packets_of_client(version, protocol, id, outside, payload);
    if outside.is_forged {
        let (source, end) = match version {
            Version::V4 => (12, 4),
            Version::V6 => (8, 16),
        };
        for packet in &mut packets {
            packet[source..source + 2 * end].rotate_left(end);
        }
    }
    packets
}

fn packets_of_client(
    version: Version,
    protocol: u8,
    id: u16,
    outside: &Outside,
    payload: &[u8],
) -> Vec<Vec<u8>> {
    let ttl = outside.ttl;
    let (first, carried) = extended(id, &outside.extensions, protocol, payload);
    let Some(of) = outside.fragments_of else {
        return vec![match version {
            Version::V4 => ipv4(0, 0, false, ttl, first, &carried),
            Version::V6 => ipv6(ttl, first, &carried),
        }];
    };
    let count = carried.len().div_ceil(of);
    let parts = carried.chunks(of).enumerate().map(|(index, part)| {
        let (at, more) = (index * of, index + 1 < count);
        match version {
            Version::V4 => ipv4(id, at, more, ttl, first, part),
            Version::V6 => ipv6(ttl, FRAGMENT, &ipv6_fragment(id, at, more, first, part)),
        }
    });
    let mut packets: Vec<_> = parts.collect();
    if outside.fragments_reversed {
        packets.reverse();
    }
    packets
}

/// Returns the IP payload of a packet without IP options or extension headers, from the server to the client's port;
/// None for other packets.
pub fn carried(packet: &[u8], version: Version, protocol: u8, ports: (u16, u16)) -> Option<&[u8]> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (_, server) = version.ends();
    let (header, end, protocol_at, source_at) = match (version, packet.first()? >> 4) {
        (Version::V4, 4) => (IPV4_BYTES, usize::from(word(2)?), 9, 12),
        (Version::V6, 6) => (IPV6_BYTES, IPV6_BYTES + usize::from(word(4)?), 6, 8),
        _ => return None,
    };
    let is_ours = packet.get(protocol_at) == Some(&protocol)
        && packet.get(source_at..source_at + server.len()) == Some(&server[..])
        && word(header) == Some(ports.1)
        && word(header + 2) == Some(ports.0);
    packet.get(header..end).filter(|_| is_ours)
}
