// SPDX-License-Identifier: GPL-2.0-or-later
//! The question of a DNS query.
//! Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState, HOST_BYTES};
use crate::names::{blank, host};

/// Bytes of the id and the flags. The bit QR is ignored, since there are servers that pass it over in a query.
const ID_AND_FLAGS_BYTES: u32 = 4;
/// Bytes of the header after the number of questions: three more counts.
const COUNTS_BYTES: u32 = 6;
/// Bytes of a label; a higher length is a pointer of compression or reserved.
const LABEL_BYTES_MAX: u32 = 63;
/// Length field of a message over TCP.
const LENGTH_BYTES: u32 = 2;

/// Reads the labels of a name into names.host. The first question has nothing before it that a pointer may point to, and a dot
/// within a label would look like one between labels, so both are odd.
fn read_name(message: &mut Cursor, names: &mut Names) -> bool {
    let mut text = [0; HOST_BYTES + 1];
    let mut bytes = 0;
    loop {
        let length = cursor::number(message, 1);
        let label = cursor::part(message, length);
        if label.cut || length > LABEL_BYTES_MAX || label.bytes.contains(&b'.') {
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

/// Reads a message into fields that are empty.
fn read_message(message: &[u8], names: &mut Names) -> NamesState {
    let mut left = cursor::begin(message);
    cursor::part(&mut left, ID_AND_FLAGS_BYTES);
    let questions = cursor::number(&mut left, 2);
    cursor::part(&mut left, COUNTS_BYTES);
    if questions != 1 || !read_name(&mut left, names) {
        return NamesState::Unreadable;
    }
    names.dns_type = cursor::number(&mut left, 2) as u16;
    cursor::number(&mut left, 2);
    match left.cut {
        true => NamesState::Unreadable,
        false => NamesState::Known,
    }
}

/// Reads a message that is sent to a server.
/// - message: all of it, from its header on.
/// - names: always filled in whole. Fields are empty unless it is Known; the root's name is empty, too.
/// - Returns names.state: Known, or Unreadable if the message has not exactly one question, or that is cut or malformed.
pub fn query(message: &[u8], names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
    let state = read_message(message, names);
    blank::finish(state, true, names)
}

/// Reads the first message of a stream, which stands behind its length.
/// - bytes: in order from the message's length on, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - names: as of `query`.
/// - Returns names.state and the bytes that length and message take, with Undecided 0: Undecided if bytes are missing
///   (Unreadable with whole, and 0), else what `query` says.
pub fn framed(bytes: &[u8], whole: bool, names: &mut Names) -> (NamesState, usize) {
    let mut stream = cursor::begin(bytes);
    let message = cursor::vector(&mut stream, LENGTH_BYTES);
    if message.cut {
        blank::fill(NamesState::Undecided, NamesProtocol::Dns, names);
        return (blank::finish(NamesState::Undecided, whole, names), 0);
    }
    let state = query(message.bytes, names);
    (state, LENGTH_BYTES as usize + message.bytes.len())
}
