// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of a ClientHello: server name, ALPN protocols, TLS versions, and whether a part is encrypted. Formats: RFC
//! 8446, section 4.1.2 (the message), RFC 6066, section 3 (server name), RFC 7301, section 3.1 (ALPN), RFC 8701
//! (GREASE), RFC 9849 (ECH).
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState, ALPN_BYTES};
use crate::names::{blank, host};

/// Maximum size of a ClientHello with its header in bytes; a longer ClientHello is unreadable.
pub const BYTES_MAX: usize = 16384;

/// Maximum size of a handshake message without its type and length, in bytes.
const BODY_BYTES_MAX: u32 = (BYTES_MAX - HEADER_BYTES) as u32;
/// Size of a handshake message's type and length, in bytes.
pub const HEADER_BYTES: usize = 4;
/// Type of a ClientHello message.
pub const CLIENT_HELLO: u32 = 1;
const RANDOM_BYTES: u32 = 32;
const SESSION_BYTES_MAX: usize = 32;
/// Number of TLS 1.2. Without the extension supported_versions no server negotiates a higher version (RFC 8446, section
/// 4.2.1).
const VERSION_1_2: u32 = 0x0303;
/// NameType of a host name in the extension server_name.
const HOST_NAME: u32 = 0;

// Types of the extensions that are parsed, and a bit for each type that has occurred.
const SERVER_NAME: u32 = 0;
const SERVER_NAME_SEEN: u32 = 1 << 0;
const ALPN: u32 = 16;
const ALPN_SEEN: u32 = 1 << 1;
const SUPPORTED_VERSIONS: u32 = 43;
const SUPPORTED_VERSIONS_SEEN: u32 = 1 << 2;
const ECH: u32 = 0xfe0d;
const ECH_SEEN: u32 = 1 << 3;

/// Parses the extension server_name (RFC 6066, section 3). Returns false unless it is a list of exactly one host name
/// without a port: nginx removes a port, but other servers don't.
fn parse_server_name(value: &mut Cursor, names: &mut Names) -> bool {
    let mut list = cursor::vector(value, 2);
    let kind = cursor::number(&mut list, 1);
    let name = cursor::vector(&mut list, 2);
    !list.cut
        && list.bytes.is_empty()
        && value.bytes.is_empty()
        && kind == HOST_NAME
        && !name.bytes.contains(&b':')
        && host::fold(name.bytes, names)
}

/// Parses the ALPN list (RFC 7301, section 3.1). Returns false if it is malformed or longer than ALPN_BYTES, or a
/// protocol is empty.
fn parse_alpn(value: &mut Cursor, names: &mut Names) -> bool {
    let list = cursor::vector(value, 2);
    let mut left = list;
    if !value.bytes.is_empty() || list.bytes.is_empty() || list.bytes.len() > ALPN_BYTES {
        return false;
    }
    while !left.bytes.is_empty() {
        if cursor::vector(&mut left, 1).bytes.is_empty() {
            return false;
        }
    }
    for (to, from) in names.alpn.iter_mut().zip(list.bytes) {
        *to = *from;
    }
    names.alpn_length = list.bytes.len() as u8;
    true
}

/// Parses the offered versions (RFC 8446, section 4.2.1), and stores the highest version. A version other than 0x03xx
/// is skipped: it is GREASE (RFC 8701) or a draft. Returns false if the list is malformed.
fn parse_versions(value: &mut Cursor, names: &mut Names) -> bool {
    let mut list = cursor::vector(value, 1);
    if !value.bytes.is_empty() || list.bytes.is_empty() {
        return false;
    }
    names.version = 0;
    while !list.bytes.is_empty() {
        let version = cursor::number(&mut list, 2) as u16;
        if version >> 8 == 3 && version > names.version {
            names.version = version;
        }
    }
    !list.cut
}

/// Parses the extension server_name, ALPN, supported_versions or ECH, and ignores other extensions. Returns false if
/// one of these four is repeated, or one of the first three is malformed.
/// - seen: in/out: *_SEEN bits of the extensions so far; a ClientHello may not repeat an extension (RFC 8446, section
///   4.2).
fn parse_extension(kind: u32, value: &mut Cursor, seen: &mut u32, names: &mut Names) -> bool {
    let bit = match kind {
        SERVER_NAME => SERVER_NAME_SEEN,
        ALPN => ALPN_SEEN,
        SUPPORTED_VERSIONS => SUPPORTED_VERSIONS_SEEN,
        ECH => ECH_SEEN,
        _ => return true,
    };
    if *seen & bit != 0 {
        return false;
    }
    *seen |= bit;
    match kind {
        SERVER_NAME => parse_server_name(value, names),
        ALPN => parse_alpn(value, names),
        SUPPORTED_VERSIONS => parse_versions(value, names),
        _ => {
            names.ech = true;
            true
        }
    }
}

/// Parses the extensions at the end of a ClientHello. Returns false if their lengths are wrong or `parse_extension`
/// returns false.
fn parse_extensions(body: &mut Cursor, names: &mut Names) -> bool {
    let mut extensions = cursor::vector(body, 2);
    let mut seen = 0;
    if extensions.cut || !body.bytes.is_empty() {
        return false;
    }
    while !extensions.bytes.is_empty() {
        let kind = cursor::number(&mut extensions, 2);
        let mut value = cursor::vector(&mut extensions, 2);
        if value.cut || !parse_extension(kind, &mut value, &mut seen, names) {
            return false;
        }
    }
    true
}

/// Parses a ClientHello after its header (type and length). Returns false if it is malformed. Clients of TLS 1.2 or
/// older may omit the extensions.
fn parse_body(body: &mut Cursor, names: &mut Names) -> bool {
    let version = cursor::number(body, 2);
    cursor::part(body, RANDOM_BYTES);
    let session = cursor::vector(body, 1);
    let suites = cursor::vector(body, 2);
    let compressions = cursor::vector(body, 1);
    if body.cut
        || version >> 8 != 3
        || session.bytes.len() > SESSION_BYTES_MAX
        || suites.bytes.is_empty()
        || suites.bytes.len() % 2 != 0
        || compressions.bytes.is_empty()
    {
        return false;
    }
    names.version = version.min(VERSION_1_2) as u16;
    body.bytes.is_empty() || parse_extensions(body, names)
}

/// Returns true if more bytes of a handshake would not change the result of `parse`: the first message is no
/// ClientHello, is too long, or is complete.
/// - head: first bytes of the handshake, at least the received part of the message's header.
/// - came: number of received bytes of the handshake.
pub fn is_settled(head: &[u8], came: u32) -> bool {
    let header = HEADER_BYTES.min(came as usize);
    let mut message = cursor::begin(head.get(..header).unwrap_or_default());
    let kind = cursor::number(&mut message, 1);
    let length = cursor::number(&mut message, 3);
    came > 0 && kind != CLIENT_HELLO
        || length > BODY_BYTES_MAX
        || !message.cut && HEADER_BYTES as u32 + length <= came
}

/// Parses the first message of a handshake for which `is_settled` is true into `names`, whose fields must be empty.
/// Returns Known, or Unreadable unless the message is a complete, valid ClientHello.
fn parse_message(handshake: &[u8], names: &mut Names) -> NamesState {
    let mut message = cursor::begin(handshake);
    let kind = cursor::number(&mut message, 1);
    let mut body = cursor::vector(&mut message, 3);
    if kind != CLIENT_HELLO || body.cut || !parse_body(&mut body, names) {
        return NamesState::Unreadable;
    }
    NamesState::Known
}

/// Parses the ClientHello at the start of a handshake.
/// - handshake: received bytes of the client's handshake messages, in order; only the first message is parsed.
/// - protocol: protocol that carries the handshake: Tls or Quic.
/// - names: out: all fields are set. Unless the state is Known, they are empty, except state and protocol.
/// - Returns names.state: Undecided if bytes are missing; Unreadable if the message is no ClientHello, is malformed,
///   repeats an extension that is parsed here, or is longer than BYTES_MAX.
pub fn parse(handshake: &[u8], protocol: NamesProtocol, names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, protocol, names);
    let state = match is_settled(handshake, handshake.len() as u32) {
        true => parse_message(handshake, names),
        false => NamesState::Undecided,
    };
    blank::finish(state, false, names)
}

/// Returns the length in bytes, with its header, of the first message of a handshake for which `parse` has returned
/// Known.
pub fn length(handshake: &[u8]) -> u32 {
    let mut message = cursor::begin(handshake);
    cursor::number(&mut message, 1);
    (HEADER_BYTES + cursor::vector(&mut message, 3).bytes.len()) as u32
}

/// Returns true if two ClientHellos, both Known, have the same host, ALPN list, highest version and offer of ECH. In
/// the answer to a HelloRetryRequest, a client may change only other parts (RFC 8446, section 4.1.2).
pub fn is_same(first: &Names, again: &Names) -> bool {
    first.host == again.host
        && first.alpn == again.alpn
        && first.version == again.version
        && first.ech == again.ech
}
