// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of an HTTP/1 request: its method and host. Formats: RFC 9112, sections 2.2, 3 and 5 (the message), RFC 9110,
//! sections 4.2, 5.6.2 and 7.2 (authority, token, Host).
//!
//! Theory of operation: servers may accept requests that violate the RFCs, and not all servers accept the same
//! requests. Therefore a request that violates the RFCs is unreadable. Only bytes that no server would read as an HTTP
//! request count as another protocol. If only few servers accept the first line, the following lines decide: a line
//! with Host makes the names unreadable; the end of the header without Host means another protocol.
#![deny(clippy::indexing_slicing)]

use crate::names::body::{self, NamesBody};
use crate::names::cursor::{self, Cursor};
use crate::names::progress::NamesProgress;
use crate::names::types::{Names, NamesProtocol, NamesState, METHOD_BYTES};
use crate::names::{blank, host};

/// Methods of RFC 9110, section 9, and RFC 5789. A line with such a method is a request even without a version
/// (HTTP/0.9).
const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const PROTOCOL: &[u8] = b"HTTP";
const HOST: &[u8] = b"host";

/// Kind of the first line of a message, as the most lenient server interprets it.
enum Kind {
    /// The line begins a request.
    Request,
    /// The line begins a request if a header field Host follows.
    Perhaps,
    /// No server accepts the line as the beginning of a request.
    Nothing,
}

/// Parts of a request. The slices point into the received bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Request<'a> {
    method: &'a [u8],
    target: &'a [u8],
    has_host: bool,
    /// Value of the field Host.
    host: &'a [u8],
    /// Minor version of HTTP, an ASCII digit.
    minor: u8,
    body: NamesBody,
}

/// Returns true if some server treats a byte as a space (RFC 9112, section 3). Python accepts all spaces of Latin-1
/// (str.split).
fn is_blank(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | 0x0b..=b'\r' | 0x1c..=0x1f | 0x85 | 0xa0
    )
}

/// Returns true if some server skips a byte that precedes a request.
fn is_leading(byte: u8) -> bool {
    is_blank(byte) || byte == b'\n'
}

/// Returns true for CR and LF. Servers skip empty lines before a request (RFC 9112, section 2.2).
fn is_line_end(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

/// Returns true if a byte may surround a field's value (RFC 9110, section 5.6.3).
fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns true if a byte is valid in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns true if a byte is accepted in a request target: it is no space or ASCII control character.
fn is_visible(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Returns true if a byte is valid in a scheme (RFC 3986, section 3.1).
fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Returns true if a byte of a target doesn't end the target's authority (RFC 3986, section 3.2).
fn is_authority(byte: u8) -> bool {
    !b"/?#".contains(&byte)
}

/// Returns true if a byte is accepted in an authority: it has the same meaning for all servers.
fn is_plain(byte: u8) -> bool {
    is_visible(byte) && !b"\"#%,/;<>?\\".contains(&byte)
}

/// Returns true if a byte is valid in a port.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Returns the number of bytes at the start for which `is_kind` is true.
fn span(bytes: &[u8], is_kind: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_kind(**byte)).count()
}

/// Returns true if there are bytes and `is_kind` is true for all of them.
fn is_all(bytes: &[u8], is_kind: fn(u8) -> bool) -> bool {
    !bytes.is_empty() && span(bytes, is_kind) == bytes.len()
}

/// Returns the bytes from an offset on; empty if there are fewer bytes.
fn rest(bytes: &[u8], place: u32) -> &[u8] {
    bytes.get(place as usize..).unwrap_or_default()
}

/// Returns `length` bytes from an offset on; empty if there are fewer bytes.
fn part(bytes: &[u8], place: u32, length: u32) -> &[u8] {
    rest(bytes, place)
        .get(..length as usize)
        .unwrap_or_default()
}

/// Checks whether bytes begin like a request: with a word that may be a method, and a byte that some server treats as a
/// space. Spaces and line ends may precede the word.
/// - progress: in: progress of an earlier call with fewer of these bytes, or the default; out: new progress.
/// - Returns Known if they do, Undecided if bytes are missing, None if they do not.
pub fn begins(bytes: &[u8], progress: &mut NamesProgress) -> NamesState {
    if progress.has_begun {
        return NamesState::Known;
    }
    if progress.searched == progress.line {
        progress.line += span(rest(bytes, progress.line), is_leading) as u32;
        progress.searched = progress.line;
    }
    progress.searched += span(rest(bytes, progress.searched), is_token) as u32;
    match rest(bytes, progress.searched).first() {
        None => NamesState::Undecided,
        Some(byte) if progress.searched > progress.line && is_blank(*byte) => {
            progress.has_begun = true;
            progress.place = progress.line;
            NamesState::Known
        }
        Some(_) => NamesState::None,
    }
}

/// Consumes a line that ends with LF or with CR and LF (RFC 9112, section 2.2).
/// - line: out: the line without its line end.
/// - Returns false if the line end is missing.
fn consume_line<'a>(bytes: &'a [u8], progress: &mut NamesProgress, line: &mut &'a [u8]) -> bool {
    let left = rest(bytes, progress.searched);
    let Some(length) = left.iter().position(|byte| *byte == b'\n') else {
        progress.searched = bytes.len() as u32;
        return false;
    };
    let end = progress.searched + length as u32;
    let taken = part(bytes, progress.place, end - progress.place);
    *line = taken.strip_suffix(b"\r").unwrap_or(taken);
    progress.place = end + 1;
    progress.searched = progress.place;
    true
}

/// Consumes a word and the blanks (see is_blank) before it. Returns the word.
fn consume_part<'a>(line: &mut Cursor<'a>) -> &'a [u8] {
    cursor::part(line, span(line.bytes, is_blank) as u32);
    let length = line
        .bytes
        .iter()
        .take_while(|byte| !is_blank(**byte))
        .count();
    cursor::part(line, length as u32).bytes
}

/// Returns the length of a word's part before the first slash: a version's protocol name (4 in HTTP/1.1 and RTSP/1.0).
/// Returns 0 for a word without a slash.
fn version_name(word: &[u8]) -> usize {
    word.iter().position(|byte| *byte == b'/').unwrap_or(0)
}

/// Returns true if a word is one of METHODS.
fn is_method(word: &[u8]) -> bool {
    METHODS.iter().any(|method| method.as_bytes() == word)
}

/// Returns true if some server accepts a word as a target: a word that begins with `/` or `*`, or contains ":/".
fn is_target(word: &[u8]) -> bool {
    word.starts_with(b"/") || word.starts_with(b"*") || word.windows(2).any(|bytes| bytes == b":/")
}

/// Returns the kind of a first line that begins with a word and a blank. The line is a request if its last word is a
/// version of HTTP, in upper or lower case. It is also a request if its first word is in METHODS and its last word is
/// no version of another protocol (RTSP, SIP). If it has a version of another protocol or a target, the following lines
/// decide: some servers accept RTSP, and some accept other methods without a version (HTTP/0.9).
fn kind_of(line: &[u8]) -> Kind {
    let mut left = cursor::begin(line);
    let first = consume_part(&mut left);
    let target = consume_part(&mut left);
    let (mut last, mut is_other) = (target, false);
    loop {
        let next = consume_part(&mut left);
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

/// Consumes a word and the space after it. Returns the word.
fn consume_word<'a>(line: &mut Cursor<'a>) -> &'a [u8] {
    let length = line.bytes.iter().take_while(|byte| **byte != b' ').count();
    let word = cursor::part(line, length as u32);
    cursor::part(line, 1);
    word.bytes
}

/// Parses a request line into `request`. Returns false unless the line has the form of RFC 9112, section 3, with single
/// spaces and a version HTTP/1.x.
fn parse_request_line<'a>(line: &'a [u8], request: &mut Request<'a>) -> bool {
    let mut left = cursor::begin(line);
    request.method = consume_word(&mut left);
    request.target = consume_word(&mut left);
    request.minor = left.bytes.last().copied().unwrap_or_default();
    is_all(request.method, is_token)
        && is_all(request.target, is_visible)
        && matches!(*left.bytes, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if is_digit(minor))
}

/// Returns a field's value without spaces and tabs around it.
fn trim(value: &[u8]) -> &[u8] {
    let mut value = value.get(span(value, is_space)..).unwrap_or_default();
    while let [before @ .., b' ' | b'\t'] = value {
        value = before;
    }
    value
}

/// Parses the line of a header field (RFC 9112, section 5). Returns false if the line is malformed or folded, if it is
/// a second Host with another value, if the value of Host begins or ends with a byte that some server treats as a
/// space, or if `body::field` rejects the field.
/// - place: offset of the line in `bytes`.
fn parse_field(bytes: &[u8], place: u32, line: &[u8], progress: &mut NamesProgress) -> bool {
    let mut parts = line.splitn(2, |byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    let value = parts.next();
    let is_odd = |byte: &u8| *byte == 0 || *byte == b'\r';
    let Some(value) = value.filter(|value| is_all(name, is_token) && !value.iter().any(is_odd))
    else {
        return false;
    };
    let before = line.len() - value.len() + span(value, is_space);
    let value = trim(value);
    if !name.eq_ignore_ascii_case(HOST) {
        return body::field(name, value, &mut progress.body);
    }
    let ends = [value.first(), value.last()];
    if ends.into_iter().flatten().any(|byte| is_blank(*byte)) {
        return false;
    }
    if progress.has_host {
        return value == part(bytes, progress.host, progress.host_bytes);
    }
    progress.has_host = true;
    progress.host = place + before as u32;
    progress.host_bytes = value.len() as u32;
    true
}

/// Removes userinfo and port from an authority (RFC 9110, section 4.2). The rest is a name, an IPv4 address, or an IPv6
/// address in brackets.
/// - has_user: true if userinfo is allowed.
/// - name: out: name or address; empty if the authority is empty.
/// - Returns false if servers may read the authority differently.
fn strip_authority<'a>(authority: &'a [u8], has_user: bool, name: &mut &'a [u8]) -> bool {
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
/// - authority: out: authority with userinfo and port; empty if the target is a path or `*`.
/// - Returns false if the target has no valid form.
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

/// Stores a request's method and host in `names`, whose fields must be empty. Returns false if the request is invalid,
/// or the names in the target's authority and in the field Host differ: RFC 9112, section 3.2.2, prefers the authority,
/// but some servers use Host.
fn store_request(request: &mut Request, names: &mut Names) -> bool {
    let (mut authority, mut target_name, mut host_name): (&[u8], &[u8], &[u8]) = (&[], &[], &[]);
    if !find_authority(request, &mut authority)
        || !strip_authority(authority, request.method != b"CONNECT", &mut target_name)
        || !strip_authority(request.host, false, &mut host_name)
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

/// Returns true if a line begins like a field Host for the most lenient server.
fn is_host(line: &[u8]) -> bool {
    let text = line.get(span(line, is_blank)..).unwrap_or_default();
    let Some((name, left)) = text.split_at_checked(HOST.len()) else {
        return false;
    };
    let left = left.get(span(left, is_blank)..).unwrap_or_default();
    name.eq_ignore_ascii_case(HOST) && left.starts_with(b":")
}

/// Returns true if any line of some bytes begins like a field Host. CR alone also ends a line, as in Python, but
/// between name and colon it is a blank.
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

/// Parses the first line that is not empty.
/// - Returns None if the following lines must be parsed, too; Undecided if the line is incomplete; otherwise the final
///   result: Known with the protocol Other, or Unreadable.
fn parse_first(bytes: &[u8], progress: &mut NamesProgress, names: &mut Names) -> NamesState {
    let mut line: &[u8] = &[];
    if !consume_line(bytes, progress, &mut line) {
        return NamesState::Undecided;
    }
    progress.has_line = true;
    match kind_of(line) {
        Kind::Request => {}
        Kind::Perhaps => {
            progress.is_perhaps = true;
            return NamesState::None;
        }
        Kind::Nothing => {
            names.protocol = NamesProtocol::Other;
            return NamesState::Known;
        }
    }
    let before = part(bytes, 0, progress.line);
    let is_request = span(before, is_line_end) == before.len()
        && parse_request_line(line, &mut Request::default());
    match is_request {
        true => NamesState::None,
        false => NamesState::Unreadable,
    }
}

/// Parses the lines after a first line whose kind is Perhaps. Returns Unreadable at a line with Host. Returns Known
/// with the protocol Other at the end of the header, or at a line that is no header field. Otherwise returns Undecided.
fn parse_perhaps(bytes: &[u8], progress: &mut NamesProgress, names: &mut Names) -> NamesState {
    let mut line: &[u8] = &[];
    while consume_line(bytes, progress, &mut line) {
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

/// Parses the request line again after the last header field, and stores the request's method and host. Returns Known,
/// or Unreadable if servers may read the request differently.
/// - body: out: kind of body, if Known is returned.
fn finish(
    bytes: &[u8],
    progress: &NamesProgress,
    body: &mut NamesBody,
    names: &mut Names,
) -> NamesState {
    let mut line: &[u8] = &[];
    let mut start = NamesProgress {
        place: progress.line,
        searched: progress.line,
        ..NamesProgress::default()
    };
    let mut request = Request {
        has_host: progress.has_host,
        host: part(bytes, progress.host, progress.host_bytes),
        body: progress.body,
        ..Request::default()
    };
    let is_good = consume_line(bytes, &mut start, &mut line)
        && parse_request_line(line, &mut request)
        && store_request(&mut request, names);
    if !is_good {
        return NamesState::Unreadable;
    }
    *body = request.body;
    body.header_bytes = progress.place;
    NamesState::Known
}

/// Parses a request into `names`, whose fields must be empty, and the kind of its body into `body`. Returns the state
/// like `parse`.
fn parse_request(
    bytes: &[u8],
    progress: &mut NamesProgress,
    body: &mut NamesBody,
    names: &mut Names,
) -> NamesState {
    let mut line: &[u8] = &[];
    if !progress.has_line {
        let state = parse_first(bytes, progress, names);
        if state != NamesState::None {
            return state;
        }
    }
    if progress.is_perhaps {
        return parse_perhaps(bytes, progress, names);
    }
    let mut place = progress.place;
    while consume_line(bytes, progress, &mut line) {
        if line.is_empty() {
            return finish(bytes, progress, body, names);
        }
        if !parse_field(bytes, place, line, progress) {
            return NamesState::Unreadable;
        }
        place = progress.place;
    }
    NamesState::Undecided
}

/// Parses the request at the start of a client's bytes.
/// - bytes: received bytes of the client, in order from the stream's first byte or the previous request's end on.
///   `begins` must have returned Known.
/// - whole: true if no more bytes will be stored. Then missing bytes make the names unreadable.
/// - progress: in: progress of `begins`, or of an earlier call with fewer of these bytes; out: new progress.
/// - body: out: kind of body after the header, if the state is Known and the protocol is Http.
/// - names: out: all fields are set. Unless the state is Known, they are empty, except state and protocol. The host is
///   empty if the request has none. A method longer than METHOD_BYTES is cut and ends with a space, so that it equals
///   no other method.
/// - Returns names.state: Known at the end of the header, because a second Host may come anywhere in it; Known with the
///   protocol Other if no server accepts the first line as HTTP, or only few servers do and the header has no Host;
///   Undecided before (Unreadable with whole); Unreadable if servers may read the request differently.
pub fn parse(
    bytes: &[u8],
    whole: bool,
    progress: &mut NamesProgress,
    body: &mut NamesBody,
    names: &mut Names,
) -> NamesState {
    blank::fill(NamesState::Undecided, NamesProtocol::Http, names);
    let state = parse_request(bytes, progress, body, names);
    blank::finish(state, whole, names)
}
