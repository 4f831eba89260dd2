// SPDX-License-Identifier: GPL-2.0-or-later
//! Multipath TCP (RFC 8684), version 1, of a client on one connection: options map each segment's bytes to positions in
//! its stream.

use std::net::{SocketAddr, TcpListener};

use nix::sys::socket::{self, Backlog};
use sha2::{Digest, Sha256};
use testbed::packets;

use super::client::{Script, Segment};

/// Kind of the TCP option for Multipath TCP.
const KIND: u8 = 30;
/// Request on a SYN (MP_CAPABLE): version 1, HMAC-SHA256.
pub const ASK: [u8; 4] = [KIND, 4, 1, 1];
/// Length in bytes of the option on a SYN-ACK, which has the server's key.
const ANSWER_BYTES: u8 = 12;
const KEY_BYTES: usize = 8;
/// Key of the client for Multipath TCP.
const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];
/// Flags of a mapping (DSS): an acknowledgement and a sequence number, each of 8 bytes.
const MAPPING_FLAGS: u8 = 0x0f;
const MAPPING_BYTES: u8 = 26;
/// Option of one byte for padding (No-Operation).
const NONE: u8 = 1;

/// Keys of both ends; the client's is KEY.
pub struct Keys {
    server: [u8; KEY_BYTES],
}

/// Returns the keys, with the server's from the options of its SYN-ACK. None if the server does not use Multipath TCP.
pub fn keys(options: &[u8]) -> Option<Keys> {
    let mut left = options;
    while let [kind, rest @ ..] = left {
        if *kind == NONE {
            left = rest;
            continue;
        }
        let bytes = *rest.first()?;
        if (*kind, bytes) == (KIND, ANSWER_BYTES) {
            let server = left.get(4..).and_then(<[u8]>::first_chunk)?;
            return Some(Keys { server: *server });
        }
        left = left.get(usize::from(bytes.max(1))..)?;
    }
    None
}

/// Returns the data sequence number before a stream's first byte (RFC 8684, section 3.1): the last 8 bytes of the
/// SHA-256 of the key of the end that sends the stream.
fn before_first(key: &[u8; KEY_BYTES]) -> u64 {
    let hash = Sha256::digest(key);
    hash.last_chunk().map_or(0, |low| u64::from_be_bytes(*low))
}

impl Keys {
    /// Returns the option of the handshake's third packet: both keys.
    pub fn option(&self) -> Vec<u8> {
        let head = [KIND, 4 + 2 * KEY_BYTES as u8, 1, 1];
        [&head[..], &KEY, &self.server].concat()
    }

    /// Returns the mapping option (DSS).
    /// - place: position in the client's stream; negative for bytes that the server already has.
    /// - offset: offset in this connection, after the SYN.
    /// - bytes: number of mapped bytes.
    pub fn mapping(&self, place: i64, offset: i64, bytes: usize) -> Vec<u8> {
        let acknowledged = before_first(&self.server).wrapping_add(1);
        let place = before_first(&KEY)
            .wrapping_add(1)
            .wrapping_add(place as u64);
        [
            &[KIND, MAPPING_BYTES, 0x20, MAPPING_FLAGS][..],
            &acknowledged.to_be_bytes(),
            &place.to_be_bytes(),
            &(1 + offset as u32).to_be_bytes(),
            &(bytes as u16).to_be_bytes(),
            &[NONE, NONE],
        ]
        .concat()
    }
}

fn asking(steps: Vec<Segment>) -> Script {
    Script {
        is_multipath: true,
        steps: steps.into_iter().map(Segment::step).collect(),
        ..Script::default()
    }
}

/// Returns a segment at `offset`, mapped to the position `place` of the client's stream.
fn at(offset: usize, bytes: &[u8], place: i64) -> Segment {
    Segment {
        mapped: Some(place),
        ..Segment::data(offset, bytes)
    }
}

/// Returns ways to send bytes over Multipath TCP: without and with a decoy.
/// - decoy: bytes sent first, mapped to positions that the server already has.
pub fn ways(bytes: &[u8], decoy: &[u8]) -> [(&'static str, Script); 2] {
    let behind = asking(vec![
        at(0, decoy, -(decoy.len() as i64)),
        at(decoy.len(), bytes, 0),
    ]);
    [
        ("Multipath TCP", asking(vec![at(0, bytes, 0)])),
        (
            "Multipath TCP, behind other bytes that the server has",
            behind,
        ),
    ]
}

/// Returns a way to request a host over HTTP: between the two parts of the request are bytes that the server already
/// has. Without these bytes the request is for `host`; with them it is for `other`, and the second part is in a body.
/// - other: the other host.
pub fn within(host: &str, other: &str) -> (&'static str, Script) {
    let head = b"POST / HTTP/1.1\r\nHost: ";
    let between = format!("{other}\r\nContent-Length: 1000\r\n\r\n");
    let end = format!("{host}\r\n\r\n");
    let script = asking(vec![
        at(0, head, 0),
        at(head.len(), between.as_bytes(), -(between.len() as i64)),
        at(
            head.len() + between.len(),
            end.as_bytes(),
            head.len() as i64,
        ),
    ]);
    (
        "Multipath TCP, around other bytes that the server has",
        script,
    )
}

/// Listens for connections of Multipath TCP and of TCP.
pub fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let socket = packets::socket(domain, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)?;
    packets::bind(&socket, address)?;
    socket::listen(&socket, Backlog::MAXCONN)?;
    Ok(TcpListener::from(socket))
}
