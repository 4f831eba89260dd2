// SPDX-License-Identifier: GPL-2.0-or-later
//! Question of a DNS query. Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState, HOST_BYTES};
use crate::names::{blank, hello, host, record};

/// Size of ID and flags. The bit QR is ignored, because some servers ignore it in a query.
const ID_AND_FLAGS_BYTES: u32 = 4;
/// Size of the rest of the header after the number of questions: three more counts.
const COUNTS_BYTES: u32 = 6;
/// Maximum length of a label; a higher value is a compression pointer, or reserved.
const LABEL_BYTES_MAX: u32 = 63;
/// Size of a TCP message's length field.
const LENGTH_BYTES: u32 = 2;
/// Maximum length of a TCP message: with its length field, what is stored of a stream.
const MESSAGE_BYTES_MAX: u32 = hello::BYTES_MAX as u32 - LENGTH_BYTES;

/// Reads the labels of a name into names.host. Returns false if bytes are missing; for a pointer, because nothing before the
/// first question has a name; and for a label with a dot, which would look like two labels.
fn read_name(message: &mut Cursor, names: &mut Names) -> bool {
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

/// Reads a message into empty fields. Returns Undecided if the question's bytes are missing.
fn read_message(message: &[u8], names: &mut Names) -> NamesState {
    let mut left = cursor::begin(message);
    cursor::part(&mut left, ID_AND_FLAGS_BYTES);
    let questions = cursor::number(&mut left, 2);
    if !left.cut && questions != 1 {
        return NamesState::Unreadable;
    }
    cursor::part(&mut left, COUNTS_BYTES);
    if !read_name(&mut left, names) {
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

/// Reads a message to a server.
/// - message: complete message from its header on.
/// - names: all fields are set; empty unless the state is Known; the root's name is empty, too.
/// - Returns names.state: Known, or Unreadable if the message does not have exactly one question, or the question is
///   cut or malformed.
pub fn query(message: &[u8], names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    let state = read_message(message, names);
    blank::finish(state, true, names)
}

/// Reads the received part of a message. Returns Unreadable if no message with this beginning can be read.
fn read_part(part: &[u8], names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    let state = match read_message(part, names) {
        NamesState::Known => NamesState::Undecided,
        state => state,
    };
    blank::finish(state, false, names)
}

/// Reads the first message of a stream, which has its length before it. A stream that begins as TLS does is unreadable,
/// although a message can begin so, too: a server on port 53 may speak TLS.
/// - bytes: received bytes, in order from the message's length on.
/// - names: as in `query`.
/// - Returns names.state, and the number of bytes of length and message, 0 unless it is Known. Unreadable as soon as the bytes
///   can't become a message that `query` reads, and that has, with its length, at most `hello::BYTES_MAX` bytes; Undecided if
///   bytes are missing; otherwise the result of `query`.
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
        return (read_part(stream.bytes, names), 0);
    };
    match query(message, names) {
        NamesState::Known => (NamesState::Known, (LENGTH_BYTES + message_bytes) as usize),
        state => (state, 0),
    }
}
