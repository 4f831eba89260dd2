// SPDX-License-Identifier: GPL-2.0-or-later
//! Protocol of a TCP client, and the names in it.
#![deny(clippy::indexing_slicing)]

use crate::names::body::NamesBody;
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello, http, record};

/// Reads a client's first bytes that are no TLS.
/// - tls: result of `record::begins` for them.
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

/// Reads a client's first bytes: TLS, HTTP or another protocol.
/// - bytes: received bytes, in order from the stream's first.
/// - whole: true if no more bytes will be kept: then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello of several records.
/// - names: all fields are set; empty unless the state is Known.
/// - Returns names.state: Undecided while the protocol is unknown or bytes are missing (Unreadable with whole); Known
///   with the protocol Other if it is neither TLS nor HTTP (Unreadable if a line begins like the HTTP field Host).
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

/// Returns true if `read` would return Undecided again, because a hello of known length or a line of a request is still
/// incomplete.
/// - names: result of `read`, with Undecided.
/// - head: first bytes of the stream; complete once end is HEAD_BYTES or more.
/// - added: bytes received since then.
/// - end: number of received bytes of the stream; more will be kept.
pub fn waits(names: &Names, head: &[u8; record::HEAD_BYTES], added: &[u8], end: u32) -> bool {
    match names.protocol {
        NamesProtocol::Tls => end >= record::HEAD_BYTES as u32 && record::waits(head, end),
        NamesProtocol::Http => !added.contains(&b'\n'),
        _ => false,
    }
}
