// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress of the parsers in an incomplete message. It lets a parser continue after the part that it has read.
//! Therefore a client can't multiply the work by sending a message in many segments.

use crate::names::body::NamesBody;
use crate::names::hello;

/// Progress in a message; the default value is the message's start. Offsets count from the start of the parser's bytes.
/// A parser that starts again with the default value finds the same result.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesProgress {
    /// TLS: offset after the last complete record. HTTP: start of the first incomplete line.
    pub place: u32,
    /// TLS: number of the stream's bytes that must be received before the message or the next record can be complete;
    /// 0 = unknown.
    pub wanted: u32,
    /// TLS: number of the previous message's bytes after the last complete record. They are skipped.
    pub skipped: u32,
    /// TLS: number of bytes of the message in complete records.
    pub joined: u32,
    /// TLS: header of the message, as far as complete records contain it.
    pub head: [u8; hello::HEADER_BYTES],
    /// HTTP: offset of the first byte that was not searched yet for the end of the current word or line.
    pub searched: u32,
    /// HTTP: offset of the first byte that is no space or line end.
    pub line: u32,
    /// HTTP: true if the first line that is not empty begins like a request.
    pub has_begun: bool,
    /// HTTP: true if the first line that is not empty is complete.
    pub has_line: bool,
    /// HTTP: true if the message is a request only if a field Host follows.
    pub is_perhaps: bool,
    /// HTTP: true if a field Host was read.
    pub has_host: bool,
    /// HTTP: offset of the value of the field Host.
    pub host: u32,
    /// HTTP: length of the value of the field Host.
    pub host_bytes: u32,
    /// HTTP: kind of body, from the header fields so far.
    pub body: NamesBody,
}
