// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of TLS records that contain a ClientHello. Format: RFC 8446, section 5.1.
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::progress::NamesProgress;
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello};

/// Total size of a record's header and the header of a handshake message in the record, in bytes.
pub const HEAD_BYTES: usize = 9;
/// Size of a record's header (content type, version and length) in bytes.
const HEADER_BYTES: u32 = 5;
/// Maximum size of a record without its header: 2^14 bytes, and 256 bytes that encryption may add in TLS 1.3.
const RECORD_BYTES_MAX: u32 = (1 << 14) + 256;
/// Content types of records, from the lowest to the highest.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;
/// Upper byte of the record version in SSL 3 and TLS.
const MAJOR: u8 = 3;
/// Lowest upper byte of a record version that no server accepts: Go's crypto/tls accepts a first record of any version
/// below 16.0.
const MAJOR_END: u8 = 16;

/// Checks whether a stream begins like TLS for the most lenient server: with a content type and a version.
/// - Returns Known if it does, Undecided if bytes are missing, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    match *bytes {
        [] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT] => NamesState::Undecided,
        [CHANGE_CIPHER_SPEC..=HEARTBEAT, 0..MAJOR_END, ..] => NamesState::Known,
        _ => NamesState::None,
    }
}

/// Consumes a handshake record, or its received part.
/// - fragment: out: received bytes of the record's contents.
/// - length: out: length of the contents in bytes, as the header states it.
/// - Returns Known if the record's header is complete, Undecided if not, Unreadable if the record is no handshake
///   record or malformed.
fn consume<'a>(stream: &mut Cursor<'a>, fragment: &mut Cursor<'a>, length: &mut u32) -> NamesState {
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
    *length = cursor::number(&mut header, 2);
    if header.cut {
        return NamesState::Undecided;
    }
    if *length > RECORD_BYTES_MAX {
        return NamesState::Unreadable;
    }
    *fragment = cursor::part(stream, (*length).min(stream.bytes.len() as u32));
    NamesState::Known
}

/// Skips a record that may come between two ClientHellos: early data (RFC 8446, section 4.2.10), or a record without
/// effect (change_cipher_spec, alert). Returns true if the stream begins with such a record or a part of it.
fn pass_over(stream: &mut Cursor) -> bool {
    let ([kind] | [kind, MAJOR, ..]) = *stream.bytes else {
        return false;
    };
    if !matches!(kind, CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA) {
        return false;
    }
    cursor::part(stream, 3);
    let length = cursor::number(stream, 2);
    cursor::part(stream, length);
    true
}

/// Adds received handshake bytes to the progress: counts the bytes that belong to the message, and stores those of the
/// message's header.
fn count(progress: &mut NamesProgress, bytes: &[u8]) {
    let skipped = bytes.len().min(progress.skipped as usize);
    let bytes = bytes.get(skipped..).unwrap_or_default();
    let room = progress.head.get_mut(progress.joined as usize..);
    for (to, from) in room.into_iter().flatten().zip(bytes) {
        *to = *from;
    }
    progress.skipped -= skipped as u32;
    progress.joined += bytes.len() as u32;
}

/// Returns the length of a message and its header in bytes. The header must be complete.
fn message_bytes(progress: &NamesProgress) -> u32 {
    let mut header = cursor::begin(&progress.head);
    cursor::number(&mut header, 1);
    hello::HEADER_BYTES as u32 + cursor::number(&mut header, 3)
}

/// Returns the number of the stream's bytes up to the end of the message or of the incomplete record at
/// `progress.place`, whichever comes first; 0 if the message's length is unknown.
/// - ahead: progress that includes the received bytes of that record.
/// - length: length of that record's contents.
fn wanted(progress: &NamesProgress, ahead: &NamesProgress, length: u32) -> u32 {
    if (ahead.joined as usize) < hello::HEADER_BYTES {
        return 0;
    }
    let missing = progress.skipped + message_bytes(ahead) - progress.joined;
    progress.place + HEADER_BYTES + length.min(missing)
}

/// Scans the records after those that were complete in an earlier call: adds their contents to the progress until the
/// message is complete or unreadable, or bytes are missing.
/// - has_others: true if other records may come between handshake records; they are skipped.
/// - Returns Known if more bytes would not change the result, Undecided if bytes are missing, Unreadable if a record
///   before the end of the message is malformed or not allowed there.
fn scan(bytes: &[u8], has_others: bool, progress: &mut NamesProgress) -> NamesState {
    let mut stream = cursor::begin(bytes.get(progress.place as usize..).unwrap_or_default());
    let (mut fragment, mut length) = (cursor::begin(&[]), 0);
    progress.wanted = 0;
    loop {
        let mut ahead = *progress;
        let is_other = has_others && pass_over(&mut stream);
        if !is_other {
            let state = consume(&mut stream, &mut fragment, &mut length);
            if state != NamesState::Known {
                return state;
            }
            count(&mut ahead, fragment.bytes);
            if hello::is_settled(&ahead.head, ahead.joined) {
                *progress = ahead;
                return NamesState::Known;
            }
            if (fragment.bytes.len() as u32) < length {
                progress.wanted = wanted(progress, &ahead, length);
                return NamesState::Undecided;
            }
        }
        if stream.cut {
            return NamesState::Undecided;
        }
        ahead.place = (bytes.len() - stream.bytes.len()) as u32;
        *progress = ahead;
    }
}

/// Appends bytes to `scratch`, as many as fit. Returns the number of appended bytes.
/// - gathered: number of bytes in `scratch` before the call.
fn append(scratch: &mut [u8; hello::BYTES_MAX], gathered: usize, bytes: &[u8]) -> usize {
    let room = scratch.get_mut(gathered..).unwrap_or_default();
    let length = bytes.len().min(room.len());
    if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
        to.copy_from_slice(from);
    }
    length
}

/// Copies the received contents of handshake records to scratch, one after another, up to a record that is malformed or
/// not allowed. Bytes that don't fit are left out. Returns the number of bytes in scratch.
/// - has_others: true if other records may come between handshake records; they are skipped.
fn gather(bytes: &[u8], has_others: bool, scratch: &mut [u8; hello::BYTES_MAX]) -> usize {
    let mut stream = cursor::begin(bytes);
    let (mut fragment, mut length) = (cursor::begin(&[]), 0);
    let mut gathered = 0;
    loop {
        while has_others && pass_over(&mut stream) {}
        if consume(&mut stream, &mut fragment, &mut length) != NamesState::Known {
            return gathered;
        }
        gathered += append(scratch, gathered, fragment.bytes);
    }
}

/// Parses the records of the first ClientHello into `names`, whose fields must be empty.
fn parse_records(
    bytes: &[u8],
    scratch: &mut [u8; hello::BYTES_MAX],
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    let state = scan(bytes, false, progress);
    if state != NamesState::Known {
        return state;
    }
    let message = match progress.place {
        0 => bytes.get(HEADER_BYTES as usize..),
        _ => {
            let gathered = gather(bytes, false, scratch);
            scratch.get(..gathered)
        }
    };
    hello::parse(message.unwrap_or_default(), NamesProtocol::Tls, names)
}

/// Parses the ClientHello at the start of a TLS stream, in one or more records.
/// - bytes: received bytes of the client, in order from the stream's first byte.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello that comes in several records.
/// - progress: in: progress of an earlier call with fewer of these bytes, or the default; out: new progress.
/// - names: out: all fields are set. Unless the state is Known, they are empty, except state and protocol.
/// - Returns names.state: Undecided if bytes are missing (Unreadable with whole); Unreadable if a record before the end
///   of the ClientHello is no handshake record or is malformed; otherwise the result of hello::parse.
pub fn parse(
    bytes: &[u8],
    whole: bool,
    scratch: &mut [u8; hello::BYTES_MAX],
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Tls, names);
    let state = parse_records(bytes, scratch, progress, names);
    blank::finish(state, whole, names)
}

/// Parses the second message of a handshake as a ClientHello.
/// - handshake: bytes of the handshake, from its first message on.
/// - Returns Undecided if no byte follows the first message, None if the second message is no ClientHello, otherwise
///   the result of hello::parse.
fn parse_behind(handshake: &[u8], names: &mut Names) -> NamesState {
    let mut message = cursor::begin(handshake);
    cursor::number(&mut message, 1);
    cursor::vector(&mut message, 3);
    let kind = cursor::number(&mut message.clone(), 1);
    if message.cut || message.bytes.is_empty() {
        return NamesState::Undecided;
    }
    match kind {
        hello::CLIENT_HELLO => hello::parse(message.bytes, NamesProtocol::Tls, names),
        _ => NamesState::None,
    }
}

/// Parses the second ClientHello of a TLS stream; it answers a server's HelloRetryRequest.
/// - bytes: received bytes of the client, from the stream's first byte. The first ClientHello must be complete.
/// - scratch: buffer for joining the handshake.
/// - progress: in: progress in the second message of an earlier call with fewer of these bytes, or the default; out:
///   new progress.
/// - names: out: names of the second ClientHello if Known is returned; otherwise unspecified.
/// - Returns Known if there is a second ClientHello, Undecided if it may follow, None if another message comes in its
///   place, Unreadable if a record is malformed or not allowed, or the second ClientHello is malformed.
pub fn parse_second(
    bytes: &[u8],
    scratch: &mut [u8; hello::BYTES_MAX],
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    if progress.place == 0 {
        let mut first = NamesProgress::default();
        scan(bytes, true, &mut first);
        progress.skipped = message_bytes(&first);
    }
    let state = scan(bytes, true, progress);
    if state != NamesState::Known {
        return state;
    }
    let gathered = gather(bytes, true, scratch);
    parse_behind(scratch.get(..gathered).unwrap_or_default(), names)
}

/// Returns true if a stream that begins with a ClientHello consists of one record, which contains only this
/// ClientHello. `parse_second` would then return Undecided.
/// - head: the stream's first HEAD_BYTES bytes.
/// - came: number of received bytes of the stream.
pub fn is_alone(head: &[u8; HEAD_BYTES], came: u32) -> bool {
    let [_, _, _, message @ ..] = head;
    let mut header = cursor::begin(message);
    let record = cursor::number(&mut header, 2);
    cursor::part(&mut header, 1);
    let hello = hello::HEADER_BYTES as u32 + cursor::number(&mut header, 3);
    hello == record && HEADER_BYTES + record == came
}
