// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS records to the ClientHello in them.
//! Format: RFC 8446, section 5.1.
#![deny(clippy::indexing_slicing)]

use crate::names::hello;
use crate::names::types::{Names, NamesProtocol, NamesState};

/// Whether a stream begins as TLS does: with a content type and a version 3.x.
/// - Returns Known if it does, Undecided if more bytes are needed to tell, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    let _ = bytes;
    NamesState::None
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
    let _ = (whole, scratch);
    hello::read(bytes, NamesProtocol::Tls, names)
}
