// SPDX-License-Identifier: GPL-2.0-or-later
//! Protocol of a TCP client, and the names in it.
#![deny(clippy::indexing_slicing)]

use crate::names::body::NamesBody;
use crate::names::progress::NamesProgress;
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello, http, record};

/// Reads a client's first bytes that are no TLS.
/// - tls: result of `record::begins` for them.
fn read_other(
    bytes: &[u8],
    whole: bool,
    tls: NamesState,
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    let http = http::begins(bytes, progress);
    if http == NamesState::Known {
        return http::read(bytes, whole, progress, &mut NamesBody::default(), names);
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
/// - progress: progress in fewer of these bytes, or the default; updated.
/// - names: all fields are set; empty unless the state is Known.
/// - Returns names.state: Undecided while the protocol is unknown or bytes are missing (Unreadable with whole); Known
///   with the protocol Other if it is neither TLS nor HTTP (Unreadable if a line begins like the HTTP field Host).
pub fn read(
    bytes: &[u8],
    whole: bool,
    scratch: &mut [u8; hello::BYTES_MAX],
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    let tls = record::begins(bytes);
    if tls == NamesState::Known {
        return record::read(bytes, whole, scratch, progress, names);
    }
    let state = read_other(bytes, whole, tls, progress, names);
    let is_other = state == NamesState::Known && names.protocol == NamesProtocol::Other;
    if is_other && http::shows_host(bytes) {
        return blank::finish(NamesState::Unreadable, whole, names);
    }
    state
}

/// Returns true if `read` would return Undecided again, because a record, or a line of a request, is still incomplete.
/// - names: result of `read`, with Undecided.
/// - progress: progress of `read`.
/// - added: bytes received since then.
/// - end: number of received bytes of the stream; more will be kept.
pub fn waits(names: &Names, progress: &NamesProgress, added: &[u8], end: u32) -> bool {
    match names.protocol {
        NamesProtocol::Tls => end < progress.wanted,
        NamesProtocol::Http => !added.contains(&b'\n'),
        _ => false,
    }
}
