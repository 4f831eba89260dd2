// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS records with a ClientHello. Format: RFC 8446, section 5.1.
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello};

/// Size of the headers of a record and of the handshake message in it.
pub const HEAD_BYTES: usize = 9;
/// Size of a record's content type, version and length.
const HEADER_BYTES: u32 = 5;
/// Size of a handshake message's type and length.
const HELLO_HEADER_BYTES: u32 = 4;
/// Maximum size of a record without its header: 2^14, and the expansion that protection may add in TLS 1.3.
const RECORD_BYTES_MAX: u32 = (1 << 14) + 256;
/// Content types from the lowest to the highest.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;
/// Upper byte of the version of TLS and SSL 3.
const MAJOR: u8 = 3;
/// First upper byte that no server accepts: Go's crypto/tls reads a first record of any version below 16.0.
const MAJOR_END: u8 = 16;

/// Checks whether a stream begins like TLS, for the most lenient server: with a content type and a version.
/// - Returns Known if it does, Undecided if bytes are missing, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    match *bytes {
        [] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT, 0..MAJOR_END, ..] => NamesState::Known,
        _ => NamesState::None,
    }
}

/// Consumes a record, or the received part of it.
/// - fragment: out: received bytes of its contents.
/// - Returns Known if its header is complete, Undecided if not, Unreadable if it is no handshake or malformed.
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

/// Appends bytes to the joined ones, as many as fit. Returns their number.
fn append(scratch: &mut [u8; hello::BYTES_MAX], gathered: usize, bytes: &[u8]) -> usize {
    let room = scratch.get_mut(gathered..).unwrap_or_default();
    let length = bytes.len().min(room.len());
    if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
        to.copy_from_slice(from);
    }
    length
}

/// Joins the contents of records in scratch, until the ClientHello is complete or scratch is full.
/// - Returns Known if more bytes would not change the result, Undecided if bytes are missing, Unreadable if a record
///   before the end of the ClientHello is malformed; and the number of bytes in scratch.
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

/// Reads records into empty fields.
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

/// Reads the ClientHello at the start of a TLS stream, from one or more records.
/// - bytes: the client's received bytes, in order from the first.
/// - whole: true if no more bytes will be kept: then missing bytes make the names unreadable.
/// - scratch: buffer for joining a hello of several records.
/// - names: all fields are set; empty unless the state is Known.
/// - Returns names.state: Undecided if bytes are missing (Unreadable with whole); Unreadable if a record is no
///   handshake or is malformed; otherwise the result of hello::read.
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

/// Skips records that may come between two hellos: early data (RFC 8446, section 4.2.10), and records without effect.
fn pass_over(stream: &mut Cursor) {
    while let [CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA, MAJOR, ..] = *stream.bytes {
        cursor::part(stream, 3);
        let length = cursor::number(stream, 2);
        cursor::part(stream, length);
    }
}

/// Reads the second message of a handshake.
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

/// Reads the second ClientHello of a TLS stream, which answers a server's HelloRetryRequest.
/// - bytes: the client's bytes from the first; the first ClientHello must be complete.
/// - scratch: buffer for joining the handshake.
/// - names: names of the second hello if Known is returned; otherwise unspecified.
/// - Returns Known if there is a second hello, Undecided if it may follow, None if another message comes in its place,
///   Unreadable if a record or the hello is malformed.
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

/// Returns true if the first record of an undecided stream is still incomplete.
/// - head: the stream's first HEAD_BYTES bytes.
/// - came: number of received bytes of the stream.
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

/// Returns true if a stream consists of one record with only a complete ClientHello, so that `read_second` would return
/// Undecided.
/// - head: the stream's first HEAD_BYTES bytes.
/// - came: number of received bytes of the stream.
pub fn is_alone(head: &[u8; HEAD_BYTES], came: u32) -> bool {
    let [_, _, _, message @ ..] = head;
    let mut header = cursor::begin(message);
    let record = cursor::number(&mut header, 2);
    cursor::part(&mut header, 1);
    let hello = HELLO_HEADER_BYTES + cursor::number(&mut header, 3);
    hello == record && HEADER_BYTES + record == came
}
