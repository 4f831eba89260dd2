// SPDX-License-Identifier: GPL-2.0-or-later
//! A request of HTTP/1: its method and its host.
//! Formats: RFC 9112, sections 2.2, 3 and 5 (the message), RFC 9110, sections 4.2, 5.6.2 and 7.2 (authority, token, Host).
//!
//! Theory of operation: a server may be lenient where the RFCs are strict, each in its own way. So a request is either as
//! strict as they ask, or unreadable; only what no server would take for a request of HTTP is another protocol. A first line
//! that few servers take is told by what follows: a line of Host makes it unreadable, the end of the header another protocol.
#![deny(clippy::indexing_slicing)]

use crate::names::body::{self, NamesBody};
use crate::names::cursor::{self, Cursor};
use crate::names::types::{Names, NamesProtocol, NamesState, METHOD_BYTES};
use crate::names::{blank, host};

/// Methods of RFC 9110, section 9, and RFC 5789: a line with one of them is a request even without a version (HTTP/0.9).
const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const PROTOCOL: &[u8] = b"HTTP";
const HOST: &[u8] = b"host";

/// Kind of a first line, as some server reads it.
enum Kind {
    /// A request.
    Request,
    /// A request, if a field Host follows.
    Perhaps,
    /// No request to any.
    Nothing,
}

/// A request, in parts of the bytes that it came in.
#[derive(Clone, Copy, Debug, Default)]
struct Request<'a> {
    method: &'a [u8],
    target: &'a [u8],
    has_host: bool,
    /// The value of Host.
    host: &'a [u8],
    /// Minor version, a digit.
    minor: u8,
    body: NamesBody,
}

/// Whether some server takes a byte for a space (RFC 9112, section 3): Python takes all that are spaces in Latin-1 (str.split).
fn is_blank(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | 0x0b..=b'\r' | 0x1c..=0x1f | 0x85 | 0xa0
    )
}

/// Whether a byte may stand before a request to some server.
fn is_leading(byte: u8) -> bool {
    is_blank(byte) || byte == b'\n'
}

/// Whether a byte may stand before a request to any server.
fn is_line_end(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

/// Whether a byte may stand around a field's value (RFC 9110, section 5.6.3).
fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether a byte may stand in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a byte may stand in a target.
fn is_visible(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Whether a byte may stand in a scheme (RFC 3986, section 3.1).
fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Whether a byte of a target belongs to its authority (RFC 3986, section 3.2).
fn is_authority(byte: u8) -> bool {
    !b"/?#".contains(&byte)
}

/// Whether a byte may stand in an authority, and means the same to all.
fn is_plain(byte: u8) -> bool {
    is_visible(byte) && !b"\"#%,/;<>?\\".contains(&byte)
}

/// Whether a byte may stand in a port.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// The number of bytes at the start that are of a kind.
fn span(bytes: &[u8], is_kind: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_kind(**byte)).count()
}

/// Whether all bytes are of a kind, and there are some.
fn is_all(bytes: &[u8], is_kind: fn(u8) -> bool) -> bool {
    !bytes.is_empty() && span(bytes, is_kind) == bytes.len()
}

/// Whether a stream begins as a request does: with a word, which may be a method, and what some server takes for a space; maybe
/// behind empty lines.
/// - Returns Known if it does, Undecided if more bytes are needed to tell, None if it does not.
pub fn begins(bytes: &[u8]) -> NamesState {
    let text = bytes.get(span(bytes, is_leading)..).unwrap_or_default();
    let length = span(text, is_token);
    match text.get(length) {
        None => NamesState::Undecided,
        Some(byte) if length > 0 && is_blank(*byte) => NamesState::Known,
        Some(_) => NamesState::None,
    }
}

/// Consumes a line without its end: LF, or CR and LF (RFC 9112, section 2.2).
/// - line: gets it.
/// - Returns false if its end did not come.
fn take_line<'a>(stream: &mut Cursor<'a>, line: &mut &'a [u8]) -> bool {
    let Some(length) = stream.bytes.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    let bytes = cursor::part(stream, length as u32).bytes;
    cursor::part(stream, 1);
    *line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    true
}

/// Consumes a word and the blanks before it.
fn take_part<'a>(line: &mut Cursor<'a>) -> &'a [u8] {
    cursor::part(line, span(line.bytes, is_blank) as u32);
    let length = line
        .bytes
        .iter()
        .take_while(|byte| !is_blank(**byte))
        .count();
    cursor::part(line, length as u32).bytes
}

/// The bytes of a version's name, as of HTTP in HTTP/1.1; 0 if a word is none.
fn version_name(word: &[u8]) -> usize {
    word.iter().position(|byte| *byte == b'/').unwrap_or(0)
}

/// Whether a word is a method of METHODS.
fn is_method(word: &[u8]) -> bool {
    METHODS.iter().any(|method| method.as_bytes() == word)
}

/// Whether a word is a target to some server: a path, `*`, or what has a scheme.
fn is_target(word: &[u8]) -> bool {
    word.starts_with(b"/") || word.starts_with(b"*") || word.windows(2).any(|bytes| bytes == b":/")
}

/// Kind of a first line that begins with a word and a blank. A request has HTTP's version, in whatever case, as its last
/// word, or a method as its first and not another protocol's version, as RTSP and SIP have, as its last. Perhaps it is one if
/// it has such a version or a target: there are servers that know other methods without a version (HTTP/0.9), and such that
/// read RTSP.
fn kind_of(line: &[u8]) -> Kind {
    let mut left = cursor::begin(line);
    let first = take_part(&mut left);
    let target = take_part(&mut left);
    let (mut last, mut is_other) = (target, false);
    loop {
        let next = take_part(&mut left);
        if next.is_empty() {
            break;
        }
        (last, is_other) = (next, true);
    }
    let name = last.get(..version_name(last)).unwrap_or_default();
    if name.eq_ignore_ascii_case(PROTOCOL) {
        return Kind::Request;
    }
    is_other = is_other && !name.is_empty() && name.iter().all(u8::is_ascii_uppercase);
    if !is_other && is_method(first) {
        return Kind::Request;
    }
    match is_other || is_target(target) {
        true => Kind::Perhaps,
        false => Kind::Nothing,
    }
}

/// Consumes a word and the space after it.
fn take_word<'a>(line: &mut Cursor<'a>) -> &'a [u8] {
    let length = line.bytes.iter().take_while(|byte| **byte != b' ').count();
    let word = cursor::part(line, length as u32);
    cursor::part(line, 1);
    word.bytes
}

/// Reads a request line (RFC 9112, section 3). Returns false unless it is just as there.
fn read_request_line<'a>(line: &'a [u8], request: &mut Request<'a>) -> bool {
    let mut left = cursor::begin(line);
    request.method = take_word(&mut left);
    request.target = take_word(&mut left);
    request.minor = left.bytes.last().copied().unwrap_or_default();
    is_all(request.method, is_token)
        && is_all(request.target, is_visible)
        && matches!(*left.bytes, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if is_digit(minor))
}

/// Cuts the white space around a field's value.
fn trim(value: &[u8]) -> &[u8] {
    let mut value = value.get(span(value, is_space)..).unwrap_or_default();
    while let [before @ .., b' ' | b'\t'] = value {
        value = before;
    }
    value
}

/// Reads a field's line (RFC 9112, section 5). Returns false if it is malformed or folded, a Host with what some server takes
/// for a space at an end, or a second Host that differs.
fn read_field<'a>(line: &'a [u8], request: &mut Request<'a>) -> bool {
    let mut parts = line.splitn(2, |byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    let value = parts.next();
    let is_odd = |byte: &u8| *byte == 0 || *byte == b'\r';
    let Some(value) = value.filter(|value| is_all(name, is_token) && !value.iter().any(is_odd))
    else {
        return false;
    };
    let value = trim(value);
    if !name.eq_ignore_ascii_case(HOST) {
        return body::field(name, value, &mut request.body);
    }
    let ends = [value.first(), value.last()];
    if ends.into_iter().flatten().any(|byte| is_blank(*byte)) {
        return false;
    }
    if request.has_host && value != request.host {
        return false;
    }
    request.has_host = true;
    request.host = value;
    true
}

/// Cuts userinfo and port from an authority (RFC 9110, section 4.2): a name, an address, or one of IPv6 in brackets.
/// - has_user: userinfo may stand there.
/// - name: gets it; empty if the authority is.
/// - Returns false if it may mean something else to others.
fn take_name<'a>(authority: &'a [u8], has_user: bool, name: &mut &'a [u8]) -> bool {
    let mut left = authority;
    *name = authority;
    if authority.is_empty() {
        return true;
    }
    if let Some(user) = authority.iter().position(|byte| *byte == b'@') {
        left = authority.get(user + 1..).unwrap_or_default();
        if !has_user || left.is_empty() || left.contains(&b'@') {
            return false;
        }
    }
    let is_address = left.first() == Some(&b'[');
    let end = match is_address {
        true => left
            .iter()
            .position(|byte| *byte == b']')
            .map_or(0, |at| at + 1),
        false => left
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(left.len()),
    };
    *name = left.get(..end).unwrap_or_default();
    let port = left.get(end..).unwrap_or_default();
    let inner = match *name {
        [b'[', inner @ .., b']'] => inner,
        inner => inner,
    };
    is_all(authority, is_plain)
        && !inner.is_empty()
        && !inner.contains(&b'[')
        && !inner.contains(&b']')
        && matches!(*port, [] | [b':', ..])
        && (port.len() < 2 || is_all(port.get(1..).unwrap_or_default(), is_digit))
}

/// Finds the authority in a target (RFC 9112, section 3.2).
/// - authority: gets it; empty if the target is a path or `*`.
/// - Returns false if the target is of no form.
fn find_authority<'a>(request: &Request<'a>, authority: &mut &'a [u8]) -> bool {
    let target = request.target;
    *authority = &[];
    if request.method == b"CONNECT" {
        *authority = target;
        return true;
    }
    if target.first() == Some(&b'/') || target == b"*" {
        return true;
    }
    let scheme = span(target, is_scheme);
    let Some([b':', b'/', b'/', left @ ..]) = target.get(scheme..) else {
        return false;
    };
    let length = span(left, is_authority);
    *authority = left.get(..length).unwrap_or_default();
    scheme > 0 && length > 0
}

/// Writes a request's method and host into fields that are empty. The target's authority and Host must name the same (RFC
/// 9112, section 3.2.2): servers differ in which of them they take.
fn take_request(request: &mut Request, names: &mut Names) -> bool {
    let (mut authority, mut target_name, mut host_name): (&[u8], &[u8], &[u8]) = (&[], &[], &[]);
    if !find_authority(request, &mut authority)
        || !take_name(authority, request.method != b"CONNECT", &mut target_name)
        || !take_name(request.host, false, &mut host_name)
        || !body::finish(request.method, request.minor, &mut request.body)
    {
        return false;
    }
    if request.has_host && !authority.is_empty() && !target_name.eq_ignore_ascii_case(host_name) {
        return false;
    }
    for (to, from) in names.method.iter_mut().zip(request.method) {
        *to = *from;
    }
    names.method_length = request.method.len().min(METHOD_BYTES) as u8;
    let [.., last] = &mut names.method;
    if request.method.len() > METHOD_BYTES {
        *last = b' ';
    }
    let name = match authority {
        [] => host_name,
        _ => target_name,
    };
    name.is_empty() || host::fold(name, names)
}

/// Whether a line begins as a field Host does, to whatever server.
fn is_host(line: &[u8]) -> bool {
    let text = line.get(span(line, is_blank)..).unwrap_or_default();
    let Some((name, left)) = text.split_at_checked(HOST.len()) else {
        return false;
    };
    let left = left.get(span(left, is_blank)..).unwrap_or_default();
    name.eq_ignore_ascii_case(HOST) && left.starts_with(b":")
}

/// Whether a line of a stream that is no request begins as a field Host does. CR alone ends a line, too, as to Python; before
/// the colon it is a blank.
pub fn shows_host(bytes: &[u8]) -> bool {
    let mut left = bytes;
    while !is_host(left) {
        let Some(line) = left.iter().position(|byte| is_line_end(*byte)) else {
            return false;
        };
        left = left.get(line + 1..).unwrap_or_default();
    }
    true
}

/// Reads what follows a first line that is perhaps a request's.
fn read_perhaps(stream: &mut Cursor, names: &mut Names) -> NamesState {
    let mut line: &[u8] = &[];
    while take_line(stream, &mut line) {
        if shows_host(line) {
            return NamesState::Unreadable;
        }
        if line.is_empty() || (span(line, is_blank) == 0 && !line.contains(&b':')) {
            names.protocol = NamesProtocol::Other;
            return NamesState::Known;
        }
    }
    NamesState::Undecided
}

/// Reads a request into fields that are empty, and what follows it.
fn read_request(bytes: &[u8], body: &mut NamesBody, names: &mut Names) -> NamesState {
    let mut stream = cursor::begin(bytes);
    let mut line: &[u8] = &[];
    let mut request = Request::default();
    let before = cursor::part(&mut stream, span(bytes, is_leading) as u32).bytes;
    if !take_line(&mut stream, &mut line) {
        return NamesState::Undecided;
    }
    match kind_of(line) {
        Kind::Request => {}
        Kind::Perhaps => return read_perhaps(&mut stream, names),
        Kind::Nothing => {
            names.protocol = NamesProtocol::Other;
            return NamesState::Known;
        }
    }
    if span(before, is_line_end) < before.len() || !read_request_line(line, &mut request) {
        return NamesState::Unreadable;
    }
    while take_line(&mut stream, &mut line) {
        if line.is_empty() {
            if !take_request(&mut request, names) {
                return NamesState::Unreadable;
            }
            *body = request.body;
            body.header_bytes = (bytes.len() - stream.bytes.len()) as u32;
            return NamesState::Known;
        }
        if !read_field(line, &mut request) {
            return NamesState::Unreadable;
        }
    }
    NamesState::Undecided
}

/// Reads the request that a stream begins with.
/// - bytes: the client's first bytes in order, as far as they came, for which `begins` says Known.
/// - whole: no more will be kept, so what is not readable yet never will be.
/// - body: gets what follows the header, if it is Known with the protocol Http.
/// - names: always filled in whole. Fields are empty unless it is Known; without a host in the request the host is. A
///   method longer than METHOD_BYTES is cut and ends with a space, which no method has.
/// - Returns names.state: Known at the end of the header, since a second Host may stand anywhere in it; Known with the
///   protocol Other if no server takes the first line for one of HTTP, or few do and the header has no Host; Undecided before
///   (Unreadable with whole); Unreadable if servers may take it differently.
pub fn read(bytes: &[u8], whole: bool, body: &mut NamesBody, names: &mut Names) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Http, names);
    let state = read_request(bytes, body, names);
    blank::finish(state, whole, names)
}
