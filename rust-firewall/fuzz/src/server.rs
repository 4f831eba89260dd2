// SPDX-License-Identifier: GPL-2.0-or-later
//! Model of a TCP server like Linux's, reduced to the rules that decide which bytes the server reads.

use rust_firewall::names::body::NamesBody;
use rust_firewall::names::progress::NamesProgress;
use rust_firewall::names::{client, dns, hello, http, Names, NamesProtocol, NamesState};

use crate::content::{self, ContentKind, KINDS};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;
const BYTES: usize = 2 * content::BYTES;

// Flags in the byte that describes a server. The byte's two lowest bits are the kind of content.
/// Flag of a server: if several segments have bytes for the same sequence number, the bytes that arrived last are kept;
/// without it, those that arrived first.
const LAST_WINS: u8 = 4;
/// Flag of a server: a SYN with another sequence number restarts a connection whose handshake is not complete.
const COOKIES: u8 = 8;
const FAST_OPEN: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Listens,
    Asked,
    Open,
}

/// Server's end of the connections between one pair of ports.
pub struct Server {
    state: ServerState,
    pub properties: u8,
    pub kind: ContentKind,
    /// Sequence number of the client's SYN.
    base: u32,
    /// Sequence number of the server's SYN.
    own: u32,
    /// Number of received bytes without a gap.
    pub next: u32,
    bytes: [u8; BYTES],
    has: [bool; BYTES],
}

/// Contents of a TCP segment.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledged: u32,
    pub data: Vec<u8>,
}

/// Returns a model of a TCP server that listens.
/// - properties: LAST_WINS, COOKIES and FAST_OPEN; the two lowest bits are the kind of content.
pub fn make(properties: u8) -> Server {
    Server {
        state: ServerState::Listens,
        properties,
        kind: KINDS[usize::from(properties & 3) % KINDS.len()],
        base: 0,
        own: 0,
        next: 0,
        bytes: [0; BYTES],
        has: [false; BYTES],
    }
}

/// Stores the data of a segment. Bytes before `next` have been read, and are not replaced.
/// - sequence: sequence number of the first data byte.
fn take(server: &mut Server, sent: &Sent, sequence: u32) {
    let first = sequence.wrapping_sub(server.base.wrapping_add(1));
    for (offset, byte) in (0..).map(|place| first.wrapping_add(place)).zip(&sent.data) {
        let place = offset as usize;
        if offset < server.next || place >= BYTES {
            continue;
        }
        if !server.has[place] || server.properties & LAST_WINS != 0 {
            server.bytes[place] = *byte;
        }
        server.has[place] = true;
    }
    while server.has.get(server.next as usize) == Some(&true) {
        server.next += 1;
    }
}

/// Returns the sequence number after the received bytes.
fn expected(server: &Server) -> u32 {
    server.base.wrapping_add(1 + server.next)
}

/// Returns a segment that acknowledges the received bytes.
fn say(server: &Server, flags: u8) -> Option<Sent> {
    let is_later = u32::from(flags & SYN == 0);
    Some(Sent {
        flags,
        sequence: server.own.wrapping_add(is_later),
        acknowledged: expected(server),
        data: Vec::new(),
    })
}

/// Begins a connection.
/// - base, own: sequence numbers of the client's and of the server's SYN.
fn begin(server: &mut Server, base: u32, own: u32) {
    server.state = ServerState::Asked;
    server.base = base;
    server.own = own;
    server.next = 0;
    server.has = [false; BYTES];
}

/// Answers a SYN for a connection that has begun: with a SYN-ACK if the handshake is not complete and the SYN is the
/// same or replaces the earlier one, otherwise with an ACK. Returns the answer.
fn take_syn(server: &mut Server, sent: &Sent, own: u32) -> Option<Sent> {
    let is_asked = server.state == ServerState::Asked;
    if is_asked && sent.sequence == server.base {
        return say(server, SYN | ACK);
    }
    if !is_asked || server.properties & COOKIES == 0 || sent.flags & ACK != 0 {
        return say(server, ACK);
    }
    begin(server, sent.sequence, own);
    say(server, SYN | ACK)
}

/// Receives a segment. Returns the server's answer, if any.
/// - own: sequence number of the server's SYN, if the segment begins a connection.
pub fn receive(server: &mut Server, sent: &Sent, own: u32) -> Option<Sent> {
    if server.state == ServerState::Listens {
        if sent.flags & (SYN | ACK | RST | FIN) != SYN {
            return None;
        }
        begin(server, sent.sequence, own);
        if server.properties & FAST_OPEN != 0 {
            take(server, sent, sent.sequence.wrapping_add(1));
        }
        return say(server, SYN | ACK);
    }
    if sent.flags & RST != 0 {
        if sent.sequence == expected(server) {
            server.state = ServerState::Listens;
        }
        return None;
    }
    if sent.flags & SYN != 0 {
        return take_syn(server, sent, own);
    }
    if sent.flags & ACK == 0 || sent.acknowledged != server.own.wrapping_add(1) {
        return None;
    }
    server.state = ServerState::Open;
    take(server, sent, sent.sequence);
    let end = sent.sequence.wrapping_add(sent.data.len() as u32);
    if sent.flags & FIN != 0 && end == expected(server) {
        server.state = ServerState::Listens;
    }
    match sent.data.is_empty() {
        true => None,
        false => say(server, ACK),
    }
}

fn is_denied(names: &Names) -> bool {
    let host = names.host.get(..names.host_length.into());
    names.state == NamesState::Known && host == Some(content::DENIED.as_bytes())
}

/// Reads the first HTTP request or DNS query in bytes.
/// - names: out: names in the request or query.
/// - Returns its number of bytes; 0 if there is none.
fn read_one(kind: ContentKind, bytes: &[u8], names: &mut Names) -> u64 {
    if kind == ContentKind::Dns {
        return dns::framed(bytes, names).1 as u64;
    }
    let (mut progress, mut body) = (NamesProgress::default(), NamesBody::default());
    let is_request = http::begins(bytes, &mut progress) == NamesState::Known
        && http::parse(bytes, false, &mut progress, &mut body, names) == NamesState::Known
        && names.protocol == NamesProtocol::Http;
    match is_request {
        true => u64::from(body.header_bytes) + body.length,
        false => 0,
    }
}

/// Returns true if the server has received a request for the denied name.
pub fn is_asked_for_denied(server: &Server) -> bool {
    let bytes = &server.bytes[..server.next as usize];
    let mut names = Names::default();
    if server.kind == ContentKind::Tls {
        let mut scratch = [0; hello::BYTES_MAX];
        let mut progress = NamesProgress::default();
        client::parse(bytes, false, &mut scratch, &mut progress, &mut names);
        return is_denied(&names);
    }
    let mut place = 0;
    while let Some(rest) = bytes.get(place as usize..).filter(|rest| !rest.is_empty()) {
        let taken = read_one(server.kind, rest, &mut names);
        if taken == 0 {
            return false;
        }
        if is_denied(&names) {
            return true;
        }
        place += taken;
    }
    false
}
