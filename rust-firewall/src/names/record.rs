// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS records to the ClientHello in them.
//! Format: RFC 8446, section 5.1.
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello};

/// Values in the headers of a record and of the handshake message in it.
pub const HEAD_BYTES: usize = 9;
/// Bytes of a record's content type, version and length.
const HEADER_BYTES: u32 = 5;
/// Bytes of a handshake message's type and length.
const HELLO_HEADER_BYTES: u32 = 4;
/// Bytes of a record without its header: 2^14, and what protection may add in TLS 1.3.
const RECORD_BYTES_MAX: u32 = (1 << 14) + 256;
/// Content types: the lowest, that of handshakes, and the highest (heartbeat).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;
/// The upper byte of the version of TLS and SSL 3.
const MAJOR: u8 = 3;
/// The first that no server takes: Go's crypto/tls reads a first record of any version below 16.0.
const MAJOR_END: u8 = 16;

/// Whether a stream begins as TLS does, to some server: with a content type and a version.
/// - Returns Known if it does, Undecided if more bytes are needed to tell, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    match *bytes {
        [] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT, 0..MAJOR_END, ..] => NamesState::Known,
        _ => NamesState::None,
    }
}

/// Consumes a record, or the part of it that has arrived.
/// - fragment: gets what came of its bytes.
/// - Returns Known if all of its header came, Undecided if not, Unreadable if it is no handshake or malformed.
fn take<'a>(stream: &mut Cursor<'a>, fragment: &mut Cursor<'a>) -> NamesState {
    let is_handshake = match *stream.bytes {
        [] | [HANDSHAKE] => true,
        [kind, major, ..] => kind == HANDSHAKE && major == MAJOR,
        _ => false,
    };
    if !is_handshake {
        return NamesState::Unreadable;
    }
    let mut header = cursor::part(stream, HEADER_BYTES);
    cursor::part(&mut header, 3);
    let length = cursor::number(&mut header, 2);
    if header.cut {
        return NamesState::Undecided;
    }
    if length > RECORD_BYTES_MAX {
        return NamesState::Unreadable;
    }
    *fragment = cursor::part(stream, length.min(stream.bytes.len() as u32));
    NamesState::Known
}

/// Appends bytes to the gathered ones, as far as there is room. Returns the number.
fn append(scratch: &mut [u8; hello::BYTES_MAX], gathered: usize, bytes: &[u8]) -> usize {
    let room = scratch.get_mut(gathered..).unwrap_or_default();
    let length = bytes.len().min(room.len());
    if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
        to.copy_from_slice(from);
    }
    length
}

/// Copies the contents of records side by side until the ClientHello is complete or scratch is full.
/// - Returns Known if more bytes would not change what it says, Undecided if they are missing, Unreadable if a record before
///   its end is; and how many bytes are in scratch.
fn gather(bytes: &[u8], scratch: &mut [u8; hello::BYTES_MAX]) -> (NamesState, usize) {
    let mut stream = cursor::begin(bytes);
    let mut fragment = cursor::begin(&[]);
    let mut gathered = 0;
    loop {
        let state = take(&mut stream, &mut fragment);
        if state != NamesState::Known {
            return (state, gathered);
        }
        gathered += append(scratch, gathered, fragment.bytes);
        if hello::is_settled(scratch.get(..gathered).unwrap_or_default()) {
            return (NamesState::Known, gathered);
        }
    }
}

/// Reads records into fields that are empty.
fn read_records(
    bytes: &[u8],
    scratch: &mut [u8; hello::BYTES_MAX],
    names: &mut Names,
) -> NamesState {
    let mut stream = cursor::begin(bytes);
    let mut fragment = cursor::begin(&[]);
    let state = take(&mut stream, &mut fragment);
    if state != NamesState::Known {
        return state;
    }
    if hello::is_settled(fragment.bytes) || stream.bytes.is_empty() {
        return hello::read(fragment.bytes, NamesProtocol::Tls, names);
    }
    let (state, gathered) = gather(bytes, scratch);
    if state != NamesState::Known {
        return state;
    }
    let message = scratch.get(..gathered).unwrap_or_default();
    hello::read(message, NamesProtocol::Tls, names)
}

/// Reads the ClientHello that a stream of TLS begins with, in however many records.
/// - bytes: the client's first bytes in order, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - scratch: where a hello of several records is put together.
/// - names: always filled in whole. Fields are empty unless it is Known.
/// - Returns names.state: Undecided if bytes are missing (Unreadable with whole), Unreadable if a record is no handshake or
///   is malformed, else what hello::read says.
pub fn read(
    bytes: &[u8],
    whole: bool,
    scratch: &mut [u8; hello::BYTES_MAX],
    names: &mut Names,
) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Tls, names);
    let state = read_records(bytes, scratch, names);
    blank::finish(state, whole, names)
}

/// Passes over records that may stand between two hellos: of early data (RFC 8446, section 4.2.10), and such as change nothing.
fn pass_over(stream: &mut Cursor) {
    while let [CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA, MAJOR, ..] = *stream.bytes {
        cursor::part(stream, 3);
        let length = cursor::number(stream, 2);
        cursor::part(stream, length);
    }
}

/// Reads the message behind the first one of a handshake.
fn read_behind(handshake: &[u8], names: &mut Names) -> NamesState {
    let mut message = cursor::begin(handshake);
    cursor::number(&mut message, 1);
    cursor::vector(&mut message, 3);
    let kind = cursor::number(&mut message.clone(), 1);
    if message.cut || message.bytes.is_empty() {
        return NamesState::Undecided;
    }
    match kind {
        hello::CLIENT_HELLO => hello::read(message.bytes, NamesProtocol::Tls, names),
        _ => NamesState::None,
    }
}

/// Reads the ClientHello that follows the one that a stream of TLS begins with, as a server asks for it (HelloRetryRequest).
/// - bytes: the client's bytes from its first one, with a ClientHello that is whole.
/// - scratch: where the handshake is put together.
/// - names: with Known those of the second hello, else anything.
/// - Returns Known if it is there, Undecided if it may follow, None if another message stands in its place, Unreadable if a record or the hello is.
pub fn read_second(
    bytes: &[u8],
    scratch: &mut [u8; hello::BYTES_MAX],
    names: &mut Names,
) -> NamesState {
    let mut stream = cursor::begin(bytes);
    let mut fragment = cursor::begin(&[]);
    let mut gathered = 0;
    loop {
        pass_over(&mut stream);
        match take(&mut stream, &mut fragment) {
            NamesState::Known => gathered += append(scratch, gathered, fragment.bytes),
            NamesState::Undecided => {
                return read_behind(scratch.get(..gathered).unwrap_or_default(), names);
            }
            state => return state,
        }
    }
}

/// Whether a stream of which nothing can be told yet still has not enough of its first record.
/// - head: the stream's first HEAD_BYTES bytes.
/// - came: how many bytes of the stream came.
pub fn waits(head: &[u8; HEAD_BYTES], came: u32) -> bool {
    let [kind, major, _, message @ ..] = head;
    let mut header = cursor::begin(message);
    let record = cursor::number(&mut header, 2);
    let is_settled = hello::is_settled(header.bytes);
    cursor::part(&mut header, 1);
    let hello = HELLO_HEADER_BYTES + cursor::number(&mut header, 3);
    *kind == HANDSHAKE
        && *major == MAJOR
        && record <= RECORD_BYTES_MAX
        && !is_settled
        && came < HEADER_BYTES + hello.min(record)
}

/// Whether a stream with a whole ClientHello is one record that has nothing else, so that `read_second` would say Undecided.
/// - head: the stream's first HEAD_BYTES bytes.
/// - came: how many bytes of the stream came.
pub fn is_alone(head: &[u8; HEAD_BYTES], came: u32) -> bool {
    let [_, _, _, message @ ..] = head;
    let mut header = cursor::begin(message);
    let record = cursor::number(&mut header, 2);
    cursor::part(&mut header, 1);
    let hello = HELLO_HEADER_BYTES + cursor::number(&mut header, 3);
    hello == record && HEADER_BYTES + record == came
}
