// SPDX-License-Identifier: GPL-2.0-or-later
//! Question of a DNS query. Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState, HOST_BYTES};
use crate::names::{blank, hello, host, record};

/// Size of ID and flags in the header, in bytes. The bit QR is ignored, because some servers ignore it in a query.
const ID_AND_FLAGS_BYTES: u32 = 4;
/// Size of the rest of the header after the number of questions, in bytes: three 16-bit counts.
const COUNTS_BYTES: u32 = 6;
/// Maximum length of a label in bytes; a higher value is a compression pointer, or reserved.
const LABEL_BYTES_MAX: u32 = 63;
/// Size of the length field before a message over TCP, in bytes.
const LENGTH_BYTES: u32 = 2;
/// Maximum length of a message over TCP: together with its length field, it must fit into the stored bytes of a stream.
const MESSAGE_BYTES_MAX: u32 = hello::BYTES_MAX as u32 - LENGTH_BYTES;

/// Reads the labels of a name into names.host. Returns false in four cases: bytes are missing; a length byte is
/// reserved, or a compression pointer, because no name precedes the first question; a label contains a dot, which would
/// look like two labels; the name is too long.
fn parse_name(message: &mut Cursor, names: &mut Names) -> bool {
    let mut text = [0; HOST_BYTES + 1];
    let mut bytes = 0;
    loop {
        let length = cursor::number(message, 1);
        if length > LABEL_BYTES_MAX {
            return false;
        }
        let label = cursor::part(message, length);
        if label.cut || label.bytes.contains(&b'.') {
            return false;
        }
        if length == 0 {
            break;
        }
        let end = bytes + label.bytes.len();
        let Some([to @ .., dot]) = text.get_mut(bytes..=end) else {
            return false;
        };
        to.copy_from_slice(label.bytes);
        *dot = b'.';
        bytes = end + 1;
    }
    bytes == 0 || host::fold(text.get(..bytes).unwrap_or_default(), names)
}

/// Parses a message into `names`, whose fields must be empty. Returns Known; Undecided if bytes of the header or the
/// question are missing; Unreadable if there is not exactly one question, or its name is malformed.
fn parse_message(message: &[u8], names: &mut Names) -> NamesState {
    let mut left = cursor::begin(message);
    cursor::part(&mut left, ID_AND_FLAGS_BYTES);
    let questions = cursor::number(&mut left, 2);
    if !left.cut && questions != 1 {
        return NamesState::Unreadable;
    }
    cursor::part(&mut left, COUNTS_BYTES);
    if !parse_name(&mut left, names) {
        return match left.cut {
            true => NamesState::Undecided,
            false => NamesState::Unreadable,
        };
    }
    names.dns_type = cursor::number(&mut left, 2) as u16;
    cursor::number(&mut left, 2);
    match left.cut {
        true => NamesState::Undecided,
        false => NamesState::Known,
    }
}

/// Parses the question of a message to a DNS server.
/// - message: complete message, from its header on.
/// - names: out: all fields are set. Unless the state is Known, they are empty, except state and protocol. The root's
///   name is also empty.
/// - Returns names.state: Known; or Unreadable if the message does not have exactly one question, or if the question is
///   cut or malformed.
pub fn query(message: &[u8], names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    let state = parse_message(message, names);
    blank::finish(state, true, names)
}

/// Parses the received part of an incomplete message. Returns Unreadable if the number of questions, a length byte or a
/// complete label makes the message unreadable, otherwise Undecided.
fn parse_part(part: &[u8], names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    let state = match parse_message(part, names) {
        NamesState::Known => NamesState::Undecided,
        state => state,
    };
    blank::finish(state, false, names)
}

/// Parses the first DNS message in bytes of a TCP stream; a length field precedes the message. Bytes that begin like
/// TLS are unreadable, because a server on port 53 may accept TLS. So a DNS message with the same first bytes is also
/// unreadable.
/// - bytes: received bytes, in order from the message's length field on.
/// - names: out: as in `query`.
/// - Returns names.state, and the total size of length field and message (0 unless the state is Known). The state is
///   Unreadable if the bytes begin like TLS, if the total size would exceed `hello::BYTES_MAX` bytes, or if a received
///   field or a complete label makes the message unreadable; Undecided if bytes are missing; otherwise the result of
///   `query`.
pub fn framed(bytes: &[u8], names: &mut Names) -> (NamesState, usize) {
    let mut stream = cursor::begin(bytes);
    let message_bytes = cursor::number(&mut stream, LENGTH_BYTES);
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    if message_bytes > MESSAGE_BYTES_MAX || record::begins(bytes) == NamesState::Known {
        return (blank::finish(NamesState::Unreadable, false, names), 0);
    }
    if stream.cut {
        return (NamesState::Undecided, 0);
    }
    let Some(message) = stream.bytes.get(..message_bytes as usize) else {
        return (parse_part(stream.bytes, names), 0);
    };
    match query(message, names) {
        NamesState::Known => (NamesState::Known, (LENGTH_BYTES + message_bytes) as usize),
        state => (state, 0),
    }
}
