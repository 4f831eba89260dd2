// SPDX-License-Identifier: GPL-2.0-or-later
//! Body of an HTTP/1 request: its length, and the start of the next request. Formats: RFC 9112, sections 6 and 7.1
//! (body, chunks), RFC 9110, section 7.8 (Upgrade).
//!
//! Theory of operation: servers treat a body that violates the RFCs differently, and some servers read no body after a
//! request that usually has none. The start of the next request after such a body is therefore unknown.
#![deny(clippy::indexing_slicing)]

use crate::names::types::NamesState;

/// Maximum number of decimal digits in Content-Length: every such value fits into a signed 64-bit number.
const LENGTH_DIGITS_MAX: usize = 18;
/// Maximum number of hexadecimal digits in a chunk's size: every such value fits into a signed 64-bit number.
const SIZE_DIGITS_MAX: usize = 15;

const LINE_END: &[u8] = b"\r\n";

/// Methods of requests whose body a server need not read (RFC 9110, section 9.3). Some servers then interpret the body
/// as the next request.
const BODILESS: [&[u8]; 5] = [b"CONNECT", b"GET", b"HEAD", b"OPTIONS", b"TRACE"];

/// Kind of body after a request's header. The default value means no body: no header field has announced a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesBody {
    /// Number of bytes up to the header's end, including empty lines before the request.
    pub header_bytes: u32,
    pub has_length: bool,
    pub is_chunked: bool,
    /// True if the request asks for a tunnel by the method CONNECT, or for WebSocket by the field Upgrade, and offers
    /// no other protocol.
    pub switches: bool,
    /// True if a field Upgrade offers another protocol than WebSocket.
    pub offers_others: bool,
    /// Length of the body in bytes, if has_length.
    pub length: u64,
}

/// Chunk of a body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesChunk {
    pub head_bytes: u32,
    /// Number of bytes of the chunk's data and the line end after the data; 0 = last chunk.
    pub bytes: u64,
}

/// Returns true if a text equals a word, without regard to case.
fn is_word(text: &[u8], word: &[u8]) -> bool {
    text.eq_ignore_ascii_case(word)
}

/// Parses the value of Content-Length. Returns false if it is malformed or too long, or differs from an earlier
/// Content-Length.
fn parse_length(value: &[u8], body: &mut NamesBody) -> bool {
    if value.is_empty() || value.len() > LENGTH_DIGITS_MAX || !value.iter().all(u8::is_ascii_digit)
    {
        return false;
    }
    let digits = value.iter().map(|digit| u64::from(digit - b'0'));
    let length = digits.fold(0, |length, digit| 10 * length + digit);
    if body.has_length && body.length != length {
        return false;
    }
    body.has_length = true;
    body.length = length;
    true
}

/// Parses a header field: stores Content-Length, and notes Transfer-Encoding (chunked) and Upgrade (to websocket or to
/// another protocol). Other fields are ignored. Returns false if servers may interpret the field differently.
pub fn field(name: &[u8], value: &[u8], body: &mut NamesBody) -> bool {
    if is_word(name, b"content-length") {
        return parse_length(value, body);
    }
    if is_word(name, b"transfer-encoding") {
        let is_first = !body.is_chunked;
        body.is_chunked = true;
        return is_first && is_word(value, b"chunked");
    }
    // Only WebSocket counts: with other protocols (h2c, TLS), requests for other hosts may follow.
    if is_word(name, b"upgrade") {
        let is_websocket = is_word(value, b"websocket");
        body.switches |= is_websocket;
        body.offers_others |= !is_websocket;
    }
    true
}

/// Checks a request's kind of body after the last header field. Returns false if servers may find different ends of the
/// body. Completes body.switches: the method CONNECT sets it. An offer of another protocol than WebSocket clears it.
/// - minor: minor version of HTTP, an ASCII digit.
pub fn finish(method: &[u8], minor: u8, body: &mut NamesBody) -> bool {
    let has_body = body.is_chunked || body.length > 0;
    if has_body && BODILESS.iter().any(|word| is_word(method, word)) {
        return false;
    }
    if is_word(method, b"connect") {
        body.switches = true;
    }
    body.switches &= !body.offers_others;
    !body.is_chunked || (!body.has_length && minor != b'0')
}

/// Parses the head of a chunk, and for the last chunk also the end of the body.
/// - Returns Known with the chunk filled in; Undecided if bytes are missing; Unreadable if servers may read the head
///   differently, and for chunk extensions and trailers.
pub fn chunk(bytes: &[u8], chunk: &mut NamesChunk) -> NamesState {
    let digits = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    if digits > SIZE_DIGITS_MAX {
        return NamesState::Unreadable;
    }
    let (number, left) = bytes.split_at_checked(digits).unwrap_or_default();
    if left.is_empty() {
        return NamesState::Undecided;
    }
    if digits == 0 {
        return NamesState::Unreadable;
    }
    let digit = |byte: &u8| u64::from(char::from(*byte).to_digit(16).unwrap_or_default());
    let size = number.iter().fold(0, |size, byte| size << 4 | digit(byte));
    // An empty line after the last chunk ends the body.
    let lines = if size > 0 { 1 } else { 2 };
    let ends = LINE_END.iter().cycle().take(lines * LINE_END.len());
    for (place, expected) in ends.enumerate() {
        match left.get(place) {
            None => return NamesState::Undecided,
            Some(byte) if byte != expected => return NamesState::Unreadable,
            Some(_) => {}
        }
    }
    *chunk = NamesChunk {
        head_bytes: (digits + lines * LINE_END.len()) as u32,
        bytes: if size > 0 {
            size + LINE_END.len() as u64
        } else {
            0
        },
    };
    NamesState::Known
}
