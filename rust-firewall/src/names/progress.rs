// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress of the parsers in a message that is incomplete. With it they continue after the part that they have read,
//! so that a client can't multiply their work by sending a message in many segments.

use crate::names::body::NamesBody;
use crate::names::hello;

/// Progress in a message; the default is its start. Offsets count from the message's first byte. It follows from the
/// received bytes alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesProgress {
    /// Offset after the last complete record, or start of the first incomplete line.
    pub place: u32,
    /// TLS: number of received bytes below which the message stays incomplete; 0 = unknown.
    pub wanted: u32,
    /// TLS: number of bytes of the handshake, after the last complete record, that come before the message.
    pub skipped: u32,
    /// TLS: number of bytes of the message in complete records, and its header as far as they contain it.
    pub joined: u32,
    pub head: [u8; hello::HEADER_BYTES],
    /// HTTP: offset of the first byte that was not searched for the end of the word or line before it.
    pub searched: u32,
    /// HTTP: start of the first line; true if it begins like a request; true if it is complete.
    pub line: u32,
    pub has_begun: bool,
    pub has_line: bool,
    /// HTTP: true if it is a request only if a field Host follows.
    pub is_perhaps: bool,
    /// HTTP: true if there was a field Host; offset and length of its value.
    pub has_host: bool,
    pub host: u32,
    pub host_bytes: u32,
    /// HTTP: kind of body after the header.
    pub body: NamesBody,
}
