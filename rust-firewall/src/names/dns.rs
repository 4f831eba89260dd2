// SPDX-License-Identifier: GPL-2.0-or-later
//! The question of a DNS query.
//! Format: RFC 1035, sections 3.1, 4.1.1, 4.1.2 and 4.2.2 (TCP).
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Reads a message.
/// - message: all of it, from its header on.
/// - names: always filled in whole. Fields are empty unless it is Known; the root's name is empty, too.
/// - Returns names.state: Known with the protocol Dns for a query, with Other for what is none (an answer); Unreadable if
///   it has not exactly one question, or that is cut or malformed.
pub fn query(message: &[u8], names: &mut Names) -> NamesState {
    let _ = message;
    *names = Names {
        state: NamesState::Unreadable,
        protocol: NamesProtocol::Dns,
        ..Names::default()
    };
    names.state
}

/// Reads the first message of a stream, which stands behind its length.
/// - bytes: in order from the message's length on, as far as they came.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - names: as of `query`.
/// - Returns names.state and the bytes that length and message take, with Undecided 0: Undecided if bytes are missing
///   (Unreadable with whole, and 0), else what `query` says.
pub fn framed(bytes: &[u8], whole: bool, names: &mut Names) -> (NamesState, usize) {
    let _ = whole;
    (query(bytes, names), 0)
}
