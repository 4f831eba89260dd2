// SPDX-License-Identifier: GPL-2.0-or-later
//! Detection of a TCP client's protocol (TLS, HTTP or another protocol), and the names in its first bytes.
#![deny(clippy::indexing_slicing)]

use crate::names::body::NamesBody;
use crate::names::progress::NamesProgress;
use crate::names::types::{Names, NamesProtocol, NamesState};
use crate::names::{blank, hello, http, record};

/// Parses a client's first bytes that do not begin like TLS, or are too few to show it.
/// - tls: result of `record::begins` for these bytes.
fn parse_other(
    bytes: &[u8],
    whole: bool,
    tls: NamesState,
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    let http = http::begins(bytes, progress);
    if http == NamesState::Known {
        return http::parse(bytes, whole, progress, &mut NamesBody::default(), names);
    }
    let state = match (tls, http) {
        (NamesState::None, NamesState::None) => NamesState::Known,
        _ => NamesState::Undecided,
    };
    blank::fill(state, NamesProtocol::Other, names);
    blank::finish(state, whole, names)
}

/// Parses a client's first bytes: TLS, HTTP or another protocol.
/// - bytes: received bytes, in order from the stream's first byte.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - scratch: buffer for joining a ClientHello of several records.
/// - progress: in: progress of an earlier call with fewer of these bytes, or the default; out: new progress.
/// - names: out: all fields are set. Unless the state is Known, they are empty, except state and protocol.
/// - Returns names.state: Undecided while the protocol is unknown or bytes are missing (Unreadable with whole); Known
///   with the protocol Other if the bytes are neither TLS nor HTTP (Unreadable if a line begins like the HTTP field
///   Host); otherwise the result of `record::parse` or `http::parse`.
pub fn parse(
    bytes: &[u8],
    whole: bool,
    scratch: &mut [u8; hello::BYTES_MAX],
    progress: &mut NamesProgress,
    names: &mut Names,
) -> NamesState {
    let tls = record::begins(bytes);
    if tls == NamesState::Known {
        return record::parse(bytes, whole, scratch, progress, names);
    }
    let state = parse_other(bytes, whole, tls, progress, names);
    let is_other = state == NamesState::Known && names.protocol == NamesProtocol::Other;
    if is_other && http::shows_host(bytes) {
        return blank::finish(NamesState::Unreadable, whole, names);
    }
    state
}

/// Returns true if added bytes complete no TLS record and no HTTP line, so that `parse` would return Undecided again.
/// Returns false if this is unknown.
/// - names: result of `parse`; its state is Undecided.
/// - progress: progress of `parse`.
/// - added: bytes received since that call.
/// - end: number of received bytes of the stream. It must be less than the maximum number of stored bytes, so that
///   `whole` would be false.
pub fn waits(names: &Names, progress: &NamesProgress, added: &[u8], end: u32) -> bool {
    match names.protocol {
        NamesProtocol::Tls => end < progress.wanted,
        NamesProtocol::Http => !added.contains(&b'\n'),
        _ => false,
    }
}
