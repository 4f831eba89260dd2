// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS records to the ClientHello in them.
//! Format: RFC 8446, section 5.1.
#![deny(clippy::indexing_slicing)]

use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello};

/// Of a record: its content type, version and length.
const HEADER_BYTES: u32 = 5;
/// Of a record without its header: 2^14, and what protection may add in TLS 1.3.
const RECORD_BYTES_MAX: u32 = (1 << 14) + 256;
/// Content types: the lowest, that of handshakes, and the highest (heartbeat).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
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

/// Takes a record, or what came of it.
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

/// Puts the bytes of records side by side, until the ClientHello is whole or scratch is full.
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
        let room = scratch.get_mut(gathered..).unwrap_or_default();
        let bytes = fragment.bytes.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..bytes), fragment.bytes.get(..bytes)) {
            to.copy_from_slice(from);
        }
        gathered += bytes;
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
