// SPDX-License-Identifier: GPL-2.0-or-later
//! Hand-made packets of QUIC: a client's Initial packets (RFC 9000, section 17.2.2; RFC 9001, section 5), the server's
//! Retry, and sealed packets that only the ends can open.
//! The keys are derived by rustls, which no twin uses.

use anyhow::Context;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};
use rustls::Side;

pub const VERSION_1: u32 = 1;
pub const VERSION_2: u32 = 0x6b33_43cf;
/// Drafts 29 and 34, which servers still accept: the first has other keys and another extension for the transport
/// parameters.
pub const DRAFT_29: u32 = 0xff00_001d;
pub const DRAFT_34: u32 = 0xff00_0022;
/// Padded size of a client's first datagrams (RFC 9000, section 14.1).
const DATAGRAM_BYTES: usize = 1_200;
/// Bytes of a packet number as sent here.
const NUMBER_BYTES: usize = 2;
const SAMPLE_OFFSET: usize = 4;
const TAG_BYTES: usize = 16;
/// Minimum length of a packet's plain text, so that it has enough bytes for a sample.
const PLAIN_BYTES_MIN: usize = 4;

/// Bits of the first byte of a long header (RFC 9000, section 17.2).
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const TYPE_SHIFT: u8 = 4;
const TYPE_MASK: u8 = 3;
/// Mask of the bits that identify the packet's type.
const KNOWN: u8 = LONG | TYPE_MASK << TYPE_SHIFT;
const INITIAL: u8 = 0;
const ZERO_RTT: u8 = 1;
const HANDSHAKE: u8 = 2;
const RETRY: u8 = 3;

/// The client's own connection IDs: of the tested connection, and of another connection.
pub const SOURCES: [&[u8]; 2] = [b"true", b"other"];

/// Returns rustls' name of a version.
pub fn version_of(number: u32) -> Version {
    match number {
        DRAFT_29 => Version::V1Draft,
        VERSION_2 => Version::V2,
        _ => Version::V1,
    }
}

/// Returns the form bit and the type bits of a long header.
/// - packet_type: number of the type in version 1. The numbers of version 2 are one higher (RFC 9369, section 3.2).
fn first_byte(version: u32, packet_type: u8) -> u8 {
    let more = u8::from(version == VERSION_2);
    LONG | ((packet_type + more) & TYPE_MASK) << TYPE_SHIFT
}

/// Initial packet of a client.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub version: u32,
    /// True if the packet belongs to another connection of the same client.
    pub other: bool,
    pub number: u16,
    pub frames: Vec<u8>,
    /// True if the packet's authentication tag is invalid: no receiver accepts the packet.
    pub broken: bool,
    /// True if the packet's fixed bit is 0 (RFC 9287).
    pub greased: bool,
    /// Bytes after the server's token that the server has not sent; empty = none.
    pub token: Vec<u8>,
}

/// Server's connection ids in the tested connection and in another connection, and the token of the server's Retry.
#[derive(Clone, Debug)]
pub struct Ids {
    pub servers: [Vec<u8>; 2],
    pub token: Vec<u8>,
}

impl Ids {
    /// Returns the server's two connection IDs for a client's port, with an empty token.
    pub fn new(port: u16) -> Ids {
        let id = |last: u8| [&port.to_be_bytes()[..], &[7; 5], &[last]].concat();
        Ids {
            servers: [id(1), id(2)],
            token: Vec::new(),
        }
    }
}

/// Returns a variable-length integer (RFC 9000, section 16): in two bytes if it is less than 0x4000, otherwise in four.
pub fn variable(number: usize) -> Vec<u8> {
    match number {
        0..0x4000 => (0x4000 | number as u16).to_be_bytes().to_vec(),
        _ => (0x8000_0000 | number as u32).to_be_bytes().to_vec(),
    }
}

/// Returns a CRYPTO frame with the handshake's bytes between two offsets.
pub fn crypto(bytes: &[u8], from: usize, to: usize) -> Vec<u8> {
    [
        vec![6],
        variable(from),
        variable(to - from),
        bytes[from..to].to_vec(),
    ]
    .concat()
}

/// Returns an encrypted packet.
/// - padding: number of padding bytes after the frames.
fn seal(ids: &Ids, packet: &Packet, padding: usize) -> anyhow::Result<Vec<u8>> {
    let server = &ids.servers[usize::from(packet.other)];
    let source = SOURCES[usize::from(packet.other)];
    let token = [&ids.token[..], &packet.token].concat();
    let mut plain = packet.frames.clone();
    plain.resize(plain.len().max(PLAIN_BYTES_MIN) + padding, 0);
    let fixed = if packet.greased { 0 } else { FIXED };
    let first = first_byte(packet.version, INITIAL) | fixed | (NUMBER_BYTES - 1) as u8;
    let header = [
        &[first][..],
        &packet.version.to_be_bytes(),
        &[server.len() as u8],
        server,
        &[source.len() as u8],
        source,
        &variable(token.len()),
        &token,
        &variable(NUMBER_BYTES + plain.len() + TAG_BYTES),
        &packet.number.to_be_bytes(),
    ]
    .concat();
    let suite = TLS13_AES_128_GCM_SHA256.tls13().context("of TLS 1.3")?;
    let quic = suite.quic.context("for QUIC")?;
    let version = version_of(packet.version);
    let keys = Keys::initial(version, suite, quic, server, Side::Client).local;
    let number = u64::from(packet.number);
    let tag = keys.packet.encrypt_in_place(number, &header, &mut plain)?;
    let mut sealed = [&header, &plain, tag.as_ref()].concat();
    let at = header.len() - NUMBER_BYTES;
    let sample = at + SAMPLE_OFFSET;
    let sample = sealed[sample..sample + keys.header.sample_len()].to_vec();
    let (start, rest) = sealed.split_at_mut(at);
    let number = &mut rest[..NUMBER_BYTES];
    keys.header
        .encrypt_in_place(&sample, &mut start[0], number)?;
    if let Some(last) = sealed.last_mut().filter(|_| packet.broken) {
        *last ^= 1;
    }
    Ok(sealed)
}

/// Returns a datagram with packets, the last one padded.
/// - behind: bytes after the packets.
pub fn datagram(ids: &Ids, packets: &[Packet], behind: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let is_last = index + 1 == packets.len();
        let room = DATAGRAM_BYTES.saturating_sub(bytes.len() + packet.frames.len());
        let padding = if is_last { room } else { 0 };
        bytes.extend(seal(ids, packet, padding)?);
    }
    bytes.extend(behind);
    Ok(bytes)
}

/// Returns a datagram with a long header of an unknown version (RFC 9000, section 15).
pub fn unknown_version(ids: &Ids) -> Vec<u8> {
    let server = &ids.servers[0];
    let mut bytes = [
        &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, server.len() as u8][..],
        server,
        &[0],
    ]
    .concat();
    bytes.resize(DATAGRAM_BYTES, 0x55);
    bytes
}

/// Returns a 0-RTT packet of a connection, which no receiver can decrypt.
pub fn zero_rtt(ids: &Ids, version: u32) -> Vec<u8> {
    let server = &ids.servers[0];
    [
        &[first_byte(version, ZERO_RTT) | FIXED][..],
        &version.to_be_bytes(),
        &[server.len() as u8],
        server,
        &[0],
        &variable(40),
        &[0x33; 40],
    ]
    .concat()
}

/// Returns a Handshake packet that an end sends. No receiver can decrypt it.
pub fn handshake(ids: &Ids, is_servers: bool) -> Vec<u8> {
    let mut names = [&ids.servers[0][..], SOURCES[0]];
    if is_servers {
        names.reverse();
    }
    let [to, from] = names;
    [
        &[first_byte(VERSION_1, HANDSHAKE) | FIXED][..],
        &VERSION_1.to_be_bytes(),
        &[to.len() as u8],
        to,
        &[from.len() as u8],
        from,
        &variable(40),
        &[0x44; 40],
    ]
    .concat()
}

/// Returns a packet with a short header that an end sends (RFC 9000, section 17.3). No receiver can decrypt it.
pub fn short(ids: &Ids, is_servers: bool) -> Vec<u8> {
    let to = match is_servers {
        true => SOURCES[0],
        false => &ids.servers[0],
    };
    [&[FIXED][..], to, &[0x55; 30]].concat()
}

/// Returns the contents of Retry (RFC 9000, section 17.2.5): the server's new connection id, and its token. None for
/// other packets.
pub fn retry(datagram: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (&first, rest) = datagram.split_first()?;
    let (version, rest) = rest.split_first_chunk()?;
    let expected = first_byte(u32::from_be_bytes(*version), RETRY);
    let (&client_bytes, rest) = rest.split_first()?;
    let rest = rest.get(usize::from(client_bytes)..)?;
    let (&server_bytes, rest) = rest.split_first()?;
    let (server, rest) = rest.split_at_checked(usize::from(server_bytes))?;
    let token = rest.get(..rest.len().checked_sub(TAG_BYTES)?)?;
    (first & KNOWN == expected).then(|| (server.to_vec(), token.to_vec()))
}
