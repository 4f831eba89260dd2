// SPDX-License-Identifier: GPL-2.0-or-later
//! The first request of HTTP/1: its method and its host.
//! Formats: RFC 9112, sections 2.2, 3 and 5 (the message), RFC 9110, sections 4.2, 5.6.2 and 7.2 (authority, token, Host).
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Bytes of a method; a longer word begins no request.
pub const TOKEN_BYTES_MAX: usize = 32;

/// Whether a stream begins as a request does: with a method and a space, maybe behind empty lines.
/// - Returns Known if it does, Undecided if more bytes are needed to tell, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    let _ = bytes;
    NamesState::None
}

/// Reads the request that a stream begins with.
/// - bytes: the client's first bytes in order, as far as they came, for which `begins` says Known.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - names: always filled in whole. Fields are empty unless it is Known; without a host in the request the host is. A
///   method longer than METHOD_BYTES is cut and ends with a space, which no method has.
/// - Returns names.state: Known at the end of the header, since a second Host may stand anywhere in it; Known with the
///   protocol Other if the first line is one of another protocol; Undecided before (Unreadable with whole); Unreadable if
///   servers may take it differently.
pub fn read(bytes: &[u8], whole: bool, names: &mut Names) -> NamesState {
    let _ = (bytes, whole);
    *names = Names {
        state: NamesState::Unreadable,
        protocol: NamesProtocol::Http,
        ..Names::default()
    };
    names.state
}
