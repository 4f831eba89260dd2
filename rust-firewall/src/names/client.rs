// SPDX-License-Identifier: GPL-2.0-or-later
//! What a client of TCP speaks, and the names in it.
#![deny(clippy::indexing_slicing)]

use crate::names::body::NamesBody;
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello, http, record};

/// Reads a client's first bytes that are no TLS. tls: what `record::begins` says of them.
fn read_other(bytes: &[u8], whole: bool, tls: NamesState, names: &mut Names) -> NamesState {
    let http = http::begins(bytes);
    if http == NamesState::Known {
        return http::read(bytes, whole, &mut NamesBody::default(), names);
    }
    let state = match (tls, http) {
        (NamesState::None, NamesState::None) => NamesState::Known,
        _ => NamesState::Undecided,
    };
    blank::fill(state, NamesProtocol::Other, names);
    blank::finish(state, whole, names)
}

/// Reads a client's first bytes, be they TLS, HTTP or something else.
/// - bytes: in order from the stream's first, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - scratch: where a ClientHello of several records is put together.
/// - names: always filled in whole. Fields are empty unless it is Known.
/// - Returns names.state: Undecided while it can be either or bytes are missing (Unreadable with whole); Known with the
///   protocol Other if it is neither, and nothing that came begins as a field Host of HTTP does (Unreadable then).
pub fn read(
    bytes: &[u8],
    whole: bool,
    scratch: &mut [u8; hello::BYTES_MAX],
    names: &mut Names,
) -> NamesState {
    let tls = record::begins(bytes);
    if tls == NamesState::Known {
        return record::read(bytes, whole, scratch, names);
    }
    let state = read_other(bytes, whole, tls, names);
    let is_other = state == NamesState::Known && names.protocol == NamesProtocol::Other;
    if is_other && http::shows_host(bytes) {
        return blank::finish(NamesState::Unreadable, whole, names);
    }
    state
}

/// Whether `read` would say Undecided again, so that nothing need be read again: a hello whose length is known is not there
/// yet, or a line of a request.
/// - names: as `read` left them, with Undecided.
/// - head: the stream's first record::HEAD_BYTES bytes, of which there are so many.
/// - added: what came since.
/// - end: how many bytes of the stream came; more will be kept.
pub fn waits(names: &Names, head: &[u8; record::HEAD_BYTES], added: &[u8], end: u32) -> bool {
    match names.protocol {
        NamesProtocol::Tls => end >= record::HEAD_BYTES as u32 && record::waits(head, end),
        NamesProtocol::Http => !added.contains(&b'\n'),
        _ => false,
    }
}
