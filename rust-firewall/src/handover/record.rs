// SPDX-License-Identifier: GPL-2.0-or-later
//! Serialized form of a connection in an upgrade.
//!
//! Format, in little-endian numbers (bits in parentheses):
//! - words of its key (64 each: two for IPv4, five for IPv6)
//! - list (8), flags (16), nanoseconds since it entered the list or was last used (64)
//! - interfaces of client and server, number of bytes that passed from each end before the client's names (32 each)
//! - stream: base, decided, acked (32 each)
//! - TCP: begun, server_begun, server_end, pending_base, and the source and sink interface of the pending SYN (32 each)
//! - UDP: version (32), keys (16, 12 and 16 bytes), next expected packet number (64), length of the connection ID (8),
//!   connection ID (20 bytes, padded)
//! - names: state, protocol, lengths of host, ALPN protocols and method (8 each), TLS version, DNS type (16 each), then
//!   host, ALPN protocols and method
//! - HTTP: next (64) and awaited (8) of the requests, for the current position and for the start of the stream
//! - number of stored pieces of the stream (8), start and end of each piece (16 each), bytes of the pieces
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    Connection, ConnectionCause, ConnectionKey, ConnectionList, Connections, Pool, Requests,
    RequestsAwaited, StreamSpan, KEY_WORDS, LIST_COUNT, PROTOCOL_COUNT, SLOT_NONE, SPANS_MAX,
};
use crate::connection::{ids, lifetime, retry, stream, table};
use crate::names::quic::{self, CONNECTION_BYTES_MAX};
use crate::names::{self, Names, NamesProtocol, NamesState, ALPN_BYTES, HOST_BYTES, METHOD_BYTES};

/// Order of the lists in which connections are sent; the receiver refuses another order. A receiver with too little
/// memory moves connections to another list. That list comes earlier in this order, so all its connections have been
/// read.
pub const ORDER: [ConnectionList; LIST_COUNT] = [
    ConnectionList::Known,
    ConnectionList::Datagrams,
    ConnectionList::Silent,
    ConnectionList::Closing,
    ConnectionList::Settling,
    ConnectionList::Showing,
    ConnectionList::Opening,
];

const TCP: u64 = libc::IPPROTO_TCP as u64;
const UDP: u64 = libc::IPPROTO_UDP as u64;
const STATES: [NamesState; 4] = [
    NamesState::None,
    NamesState::Undecided,
    NamesState::Known,
    NamesState::Unreadable,
];
const PROTOCOLS: [NamesProtocol; PROTOCOL_COUNT] = [
    NamesProtocol::Other,
    NamesProtocol::Tls,
    NamesProtocol::Quic,
    NamesProtocol::Http,
    NamesProtocol::Dns,
];
const AWAITED: [RequestsAwaited; 4] = [
    RequestsAwaited::Header,
    RequestsAwaited::Chunk,
    RequestsAwaited::Nothing,
    RequestsAwaited::Lost,
];
/// Number of words (64 bits each) in the key of an IPv4 connection.
const IPV4_WORDS: usize = 2;
/// Limit of packet numbers (RFC 9000, section 12.3): all packet numbers are smaller. The next expected number may be
/// equal.
const NUMBERS: u64 = 1 << 62;
/// Limit of the offset of the next HTTP request or chunk in a stream: the offset is smaller, because a body's length
/// has at most 18 decimal digits, and a chunk's size at most 15 hexadecimal digits.
const NEXT: u64 = 1 << 61;

// Flags of a connection.
const CLIENT_LOW: u64 = 1 << 0;
const CONFIRMED: u64 = 1 << 1;
const CLOSED: u64 = 1 << 2;
const EVASION: u64 = 1 << 3;
const DNS: u64 = 1 << 4;
const PENDING: u64 = 1 << 5;
const PENDING_LOW: u64 = 1 << 6;
const LET_GO: u64 = 1 << 7;
const ECH: u64 = 1 << 8;
const AHEAD: u64 = 1 << 9;
const SYN_DATA: u64 = 1 << 10;
const MAY_RETRY: u64 = 1 << 11;
const MAY_SWITCH: u64 = 1 << 12;
const ACCEPTED: u64 = 1 << 13;
const CROSSED: u64 = 1 << 14;
const FLAGS: u64 = (1 << 15) - 1;
/// Flags that a UDP connection can't have.
const TCP_FLAGS: u64 =
    CONFIRMED | DNS | PENDING | PENDING_LOW | AHEAD | SYN_DATA | MAY_RETRY | MAY_SWITCH | CROSSED;

/// State of reading serialized connections or addresses.
pub struct RecordReading<'a> {
    pub left: &'a [u8],
    /// True if a read requested more bytes than were left.
    pub cut: bool,
    /// List of the previous connection, as an index into ORDER, and its age.
    list: usize,
    age_ns: u64,
}

/// Starts to read serialized connections or addresses.
pub fn begin(bytes: &[u8]) -> RecordReading<'_> {
    RecordReading {
        left: bytes,
        cut: false,
        list: 0,
        age_ns: u64::MAX,
    }
}

/// Appends the lowest `bytes` bytes of a number, in little-endian order.
pub fn append_number(record: &mut Vec<u8>, number: u64, bytes: usize) {
    let number = number.to_le_bytes();
    record.extend_from_slice(number.get(..bytes).unwrap_or_default());
}

fn append_part(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend_from_slice(bytes);
}

fn append_key(record: &mut Vec<u8>, key: &ConnectionKey) {
    let [first, ..] = key;
    let words = match first >> 8 & 0xff {
        4 => IPV4_WORDS,
        _ => KEY_WORDS,
    };
    for word in key.iter().take(words) {
        append_number(record, *word, 8);
    }
}

fn flags_of(connection: &Connection) -> u64 {
    let flags = [
        (connection.client_low, CLIENT_LOW),
        (connection.confirmed, CONFIRMED),
        (connection.closed, CLOSED),
        (connection.evasion, EVASION),
        (connection.is_dns, DNS),
        (connection.pending, PENDING),
        (connection.pending_low, PENDING_LOW),
        (connection.stream.let_go, LET_GO),
        (connection.names.ech, ECH),
        (connection.stream.ahead, AHEAD),
        (connection.syn_data, SYN_DATA),
        (connection.may_retry, MAY_RETRY),
        (connection.may_switch, MAY_SWITCH),
        (connection.accepted, ACCEPTED),
        (connection.crossed, CROSSED),
    ];
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, flag)| flag).sum()
}

/// Appends the fields that only TCP or only UDP has.
fn append_protocol(record: &mut Vec<u8>, connection: &Connection) {
    if !connection.is_udp {
        append_number(record, connection.begun.into(), 4);
        append_number(record, connection.server_begun.into(), 4);
        append_number(record, connection.server_end.into(), 4);
        append_number(record, connection.pending_base.into(), 4);
        append_number(record, connection.pending_client_interface.into(), 4);
        append_number(record, connection.pending_server_interface.into(), 4);
        return;
    }
    let keys = &connection.keys;
    append_number(record, keys.version.into(), 4);
    append_part(record, &keys.key);
    append_part(record, &keys.iv);
    append_part(record, &keys.header);
    append_number(record, keys.next, 8);
    append_number(record, connection.id_bytes.into(), 1);
    append_part(record, &connection.id);
}

/// Returns true if the names of a connection were read from an HTTP request.
fn is_http(names: &Names) -> bool {
    names.state == NamesState::Known && names.protocol == NamesProtocol::Http
}

fn append_names(record: &mut Vec<u8>, names: &Names) {
    append_number(record, names.state as u64, 1);
    append_number(record, names.protocol as u64, 1);
    append_number(record, names.host_length.into(), 1);
    append_number(record, names.alpn_length.into(), 1);
    append_number(record, names.method_length.into(), 1);
    append_number(record, names.version.into(), 2);
    append_number(record, names.dns_type.into(), 2);
    let host = names.host.get(..names.host_length.into());
    let alpn = names.alpn.get(..names.alpn_length.into());
    let method = names.method.get(..names.method_length.into());
    for field in [host, alpn, method] {
        append_part(record, field.unwrap_or_default());
    }
}

fn append_requests(record: &mut Vec<u8>, requests: &Requests) {
    append_number(record, requests.next, 8);
    append_number(record, requests.awaited as u64, 1);
}

/// Appends the stored pieces of a stream.
fn append_spans(record: &mut Vec<u8>, connection: &Connection, pool: &mut Pool) {
    let stream = &connection.stream;
    let spans = stream.spans.iter().take(stream.span_count.into());
    append_number(record, stream.span_count.into(), 1);
    for span in spans.clone() {
        append_number(record, span.start.into(), 2);
        append_number(record, span.end.into(), 2);
    }
    for span in spans {
        let at = record.len();
        record.resize(at + usize::from(span.end - span.start), 0);
        let room = record.get_mut(at..).unwrap_or_default();
        stream::gather(stream, pool, span.start.into(), span.end.into(), room);
    }
}

/// Appends a connection.
pub fn append(record: &mut Vec<u8>, connection: &Connection, pool: &mut Pool, now_ns: u64) {
    let stream = &connection.stream;
    append_key(record, &connection.key);
    append_number(record, connection.list as u64, 1);
    append_number(record, flags_of(connection), 2);
    append_number(record, now_ns.saturating_sub(connection.since_ns), 8);
    append_number(record, connection.client_interface.into(), 4);
    append_number(record, connection.server_interface.into(), 4);
    append_number(record, connection.client_passed.into(), 4);
    append_number(record, connection.server_passed.into(), 4);
    append_number(record, stream.base.into(), 4);
    append_number(record, stream.decided.into(), 4);
    append_number(record, stream.acked.into(), 4);
    append_protocol(record, connection);
    append_names(record, &connection.names);
    if is_http(&connection.names) {
        append_requests(record, &connection.requests);
        append_requests(record, &connection.requests_begun);
    }
    append_spans(record, connection, pool);
}

/// Removes bytes from the front of the unread bytes, and returns them; returns no bytes if fewer are left.
fn part<'a>(reading: &mut RecordReading<'a>, bytes: usize) -> &'a [u8] {
    let Some((part, rest)) = reading.left.split_at_checked(bytes) else {
        reading.cut = true;
        reading.left = &[];
        return &[];
    };
    reading.left = rest;
    part
}

/// Removes a number of the given size in bytes from the front of the unread bytes, and returns it; returns 0 if fewer
/// bytes are left.
pub fn number(reading: &mut RecordReading, bytes: usize) -> u64 {
    let bytes = part(reading, bytes).iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Fills a field with the next unread bytes, if enough are left.
fn decode_part(reading: &mut RecordReading, field: &mut [u8]) {
    let bytes = part(reading, field.len());
    for (to, from) in field.iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// Returns true if a TCP or UDP packet can have the key. In a valid key the lower end (by address and port) comes
/// first.
fn is_key(key: &ConnectionKey) -> bool {
    let [first, second, third, fourth, fifth] = *key;
    let (low, high) = match first >> 8 & 0xff_ffff {
        4 => ([second >> 32, 0], [second & 0xffff_ffff, 0]),
        6 => ([second, third], [fourth, fifth]),
        _ => return false,
    };
    matches!(first & 0xff, TCP | UDP) && (low, first >> 48) <= (high, first >> 32 & 0xffff)
}

/// Parses a key. Returns None if it is invalid, or if the table already contains it.
fn decode_key(reading: &mut RecordReading, connections: &Connections) -> Option<ConnectionKey> {
    let mut key = [0; KEY_WORDS];
    let [first, rest @ ..] = &mut key;
    *first = number(reading, 8);
    let words = match *first >> 8 & 0xff {
        4 => IPV4_WORDS,
        _ => KEY_WORDS,
    };
    for word in rest.iter_mut().take(words - 1) {
        *word = number(reading, 8);
    }
    let table = &connections.table;
    let is_new = table::find(table, &key, table::hash(table, &key)) == SLOT_NONE;
    (!reading.cut && is_key(&key) && is_new).then_some(key)
}

/// Checks the list and the age of a connection. Returns true if the list does not come before the previous connection's
/// list, the age does not increase within a list, and the list may contain connections of the protocol.
fn decode_list(reading: &mut RecordReading, list: u64, age_ns: u64, is_udp: bool) -> bool {
    let place = ORDER.iter().position(|known| *known as u64 == list);
    let Some(place) = place.filter(|place| *place >= reading.list) else {
        return false;
    };
    let is_in_order = place > reading.list || age_ns <= reading.age_ns;
    reading.list = place;
    reading.age_ns = age_ns;
    is_in_order
        && match ORDER.get(place) {
            Some(ConnectionList::Known | ConnectionList::Silent | ConnectionList::Opening) => {
                !is_udp
            }
            Some(ConnectionList::Datagrams) => is_udp,
            _ => true,
        }
}

fn set_flags(connection: &mut Connection, flags: u64) {
    connection.client_low = flags & CLIENT_LOW != 0;
    connection.confirmed = flags & CONFIRMED != 0;
    connection.closed = flags & CLOSED != 0;
    connection.evasion = flags & EVASION != 0;
    connection.is_dns = flags & DNS != 0;
    connection.pending = flags & PENDING != 0;
    connection.pending_low = flags & PENDING_LOW != 0;
    connection.stream.let_go = flags & LET_GO != 0;
    connection.names.ech = flags & ECH != 0;
    connection.stream.ahead = flags & AHEAD != 0;
    connection.syn_data = flags & SYN_DATA != 0;
    connection.may_retry = flags & MAY_RETRY != 0;
    connection.may_switch = flags & MAY_SWITCH != 0;
    connection.accepted = flags & ACCEPTED != 0;
    connection.crossed = flags & CROSSED != 0;
}

/// Parses the fields that only TCP or only UDP has. Returns true if they are valid.
fn decode_protocol(reading: &mut RecordReading, connection: &mut Connection) -> bool {
    if !connection.is_udp {
        connection.begun = number(reading, 4) as u32;
        connection.server_begun = number(reading, 4) as u32;
        connection.server_end = number(reading, 4) as u32;
        connection.pending_base = number(reading, 4) as u32;
        connection.pending_client_interface = number(reading, 4) as u32;
        connection.pending_server_interface = number(reading, 4) as u32;
        return !reading.cut;
    }
    let keys = &mut connection.keys;
    keys.version = number(reading, 4) as u32;
    decode_part(reading, &mut keys.key);
    decode_part(reading, &mut keys.iv);
    decode_part(reading, &mut keys.header);
    keys.next = number(reading, 8);
    connection.id_bytes = number(reading, 1) as u8;
    decode_part(reading, &mut connection.id);
    !reading.cut
        && quic::is_understood(keys.version)
        && keys.next <= NUMBERS
        && usize::from(connection.id_bytes) <= CONNECTION_BYTES_MAX
}

/// Returns true if a list of ALPN protocols has the format of RFC 7301.
fn are_protocols(mut list: &[u8]) -> bool {
    while let Some((&length, rest)) = list.split_first() {
        match rest.get(length.into()..) {
            Some(behind) if length > 0 => list = behind,
            _ => return false,
        }
    }
    true
}

/// Returns true if a method is a token (RFC 9110, section 5.6.2). A method that was cut to METHOD_BYTES ends with a
/// space.
fn is_method(method: &[u8]) -> bool {
    let method = match method {
        [cut @ .., b' '] if method.len() == METHOD_BYTES => cut,
        whole => whole,
    };
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !method.is_empty() && method.iter().all(is_token)
}

/// Returns true if the parsers can produce these names. Their lengths must be valid.
fn are_names(names: &Names, is_udp: bool) -> bool {
    let alpn = names.alpn.get(..names.alpn_length.into());
    let method = names.method.get(..names.method_length.into());
    let (alpn, method) = (alpn.unwrap_or_default(), method.unwrap_or_default());
    let has_host = names.host_length > 0;
    let has_hello = names.ech || names.version != 0 || names.alpn_length > 0;
    let has_method = names.method_length > 0;
    let has_type = names.dns_type != 0;
    let is_version = names.version == 0 || names.version >> 8 == 3;
    if names.state != NamesState::Known {
        return !has_host && !has_hello && !has_method && !has_type;
    }
    let is_good = match names.protocol {
        NamesProtocol::Other => !has_host && !has_hello && !has_method && !has_type,
        NamesProtocol::Tls | NamesProtocol::Quic => {
            is_version && are_protocols(alpn) && !has_method && !has_type
        }
        NamesProtocol::Http => is_method(method) && !has_hello && !has_type,
        NamesProtocol::Dns => !has_hello && !has_method,
    };
    is_good
        && is_udp == (names.protocol == NamesProtocol::Quic)
        && !names::host(names).iter().any(u8::is_ascii_uppercase)
}

/// Parses names. Returns true if they are valid.
fn decode_names(reading: &mut RecordReading, names: &mut Names, is_udp: bool) -> bool {
    let state = STATES.get(number(reading, 1) as usize);
    let protocol = PROTOCOLS.get(number(reading, 1) as usize);
    let (host, alpn) = (number(reading, 1) as usize, number(reading, 1) as usize);
    let method = number(reading, 1) as usize;
    names.version = number(reading, 2) as u16;
    names.dns_type = number(reading, 2) as u16;
    let (Some(&state), Some(&protocol)) = (state, protocol) else {
        return false;
    };
    if state == NamesState::None || host > HOST_BYTES || alpn > ALPN_BYTES || method > METHOD_BYTES
    {
        return false;
    }
    names.state = state;
    names.protocol = protocol;
    names.host_length = host as u8;
    names.alpn_length = alpn as u8;
    names.method_length = method as u8;
    decode_part(reading, names.host.get_mut(..host).unwrap_or_default());
    decode_part(reading, names.alpn.get_mut(..alpn).unwrap_or_default());
    decode_part(reading, names.method.get_mut(..method).unwrap_or_default());
    !reading.cut && are_names(names, is_udp)
}

/// Parses the state of a connection's HTTP request parser. Returns true if it is valid.
fn decode_requests(reading: &mut RecordReading, requests: &mut Requests) -> bool {
    requests.next = number(reading, 8);
    let Some(&awaited) = AWAITED.get(number(reading, 1) as usize) else {
        return false;
    };
    requests.awaited = awaited;
    !reading.cut && requests.next < NEXT
}

/// Parses the borders of a stream's pieces. Returns their number if they are valid.
fn decode_spans(reading: &mut RecordReading, spans: &mut [StreamSpan; SPANS_MAX]) -> Option<usize> {
    let count = number(reading, 1) as usize;
    let mut end = None;
    for span in spans.get_mut(..count)? {
        span.start = number(reading, 2) as u16;
        span.end = number(reading, 2) as u16;
        let is_apart = end.is_none_or(|end| span.start > end);
        if !is_apart || span.start >= span.end || u32::from(span.end) > BYTES_MAX {
            return None;
        }
        end = Some(span.end);
    }
    (!reading.cut).then_some(count)
}

/// Parses the pieces of a stream and stores them. If memory is missing, the connection becomes unreadable. Returns true
/// if the pieces are valid.
fn decode_stream(
    reading: &mut RecordReading,
    connections: &mut Connections,
    slot: u32,
    now_ns: u64,
) -> bool {
    let mut spans = [StreamSpan::default(); SPANS_MAX];
    let Some(count) = decode_spans(reading, &mut spans) else {
        return false;
    };
    let stream = &mut table::at(&mut connections.table, slot).stream;
    let acked = stream.acked;
    let prefix = match spans.first() {
        Some(first) if count > 0 && first.start == 0 => first.end.into(),
        _ => 0,
    };
    let most = if stream.let_go { BYTES_MAX } else { prefix };
    if stream.decided > most || stream.acked > i32::MAX as u32 || stream.let_go && count > 0 {
        return false;
    }
    // The old firewall has stored the bytes before the server acknowledged them.
    stream.acked = 0;
    let mut is_kept = true;
    for span in spans.iter().take(count) {
        let bytes = part(reading, (span.end - span.start).into());
        if is_kept && !reading.cut {
            let put = lifetime::store(connections, slot, span.start.into(), bytes, now_ns);
            is_kept = put == StreamPut::Kept;
        }
    }
    table::at(&mut connections.table, slot).stream.acked = acked;
    if !is_kept {
        lifetime::make_unreadable(connections, slot, ConnectionCause::Pool, now_ns);
    }
    !reading.cut
}

/// Parses the next connection and adds it to the table. Fails with the name of the invalid part; then the table may
/// contain a part of the connection.
pub fn decode(
    reading: &mut RecordReading,
    connections: &mut Connections,
    now_ns: u64,
) -> Result<(), &'static str> {
    let key = decode_key(reading, connections).ok_or("key")?;
    let [first, ..] = key;
    let is_udp = first & 0xff == UDP;
    let (list, flags) = (number(reading, 1), number(reading, 2));
    let age_ns = number(reading, 8);
    if reading.cut || !decode_list(reading, list, age_ns, is_udp) {
        return Err("list");
    }
    let is_odd = flags & !FLAGS != 0 || flags & (DNS | AHEAD) == AHEAD;
    let others = if is_udp { TCP_FLAGS } else { ACCEPTED };
    if is_odd || flags & others != 0 {
        return Err("flags");
    }
    let list = ORDER.get(reading.list).copied().unwrap_or_default();
    let since_ns = now_ns.saturating_sub(age_ns);
    let client_low = flags & CLIENT_LOW != 0;
    let hash = table::hash(&connections.table, &key);
    let slot = lifetime::add(connections, &key, hash, client_low, list, since_ns, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.is_udp = is_udp;
    set_flags(connection, flags);
    connection.client_interface = number(reading, 4) as u32;
    connection.server_interface = number(reading, 4) as u32;
    connection.client_passed = number(reading, 4) as u32;
    connection.server_passed = number(reading, 4) as u32;
    connection.stream.base = number(reading, 4) as u32;
    connection.stream.decided = number(reading, 4) as u32;
    connection.stream.acked = number(reading, 4) as u32;
    if !decode_protocol(reading, connection) {
        return Err("protocol");
    }
    let is_good = decode_names(reading, &mut connection.names, is_udp);
    let is_http = is_http(&connection.names);
    let is_odd = connection.may_retry && !retry::can(&connection.names)
        || connection.may_switch && !is_http
        || connection.accepted && connection.names.state != NamesState::Known;
    if !is_good || is_odd {
        return Err("names");
    }
    let is_good = !is_http
        || decode_requests(reading, &mut connection.requests)
            && decode_requests(reading, &mut connection.requests_begun);
    if !is_good {
        return Err("requests");
    }
    if is_udp {
        let connection = table::at(&mut connections.table, slot);
        let (id, bytes) = (connection.id, connection.id_bytes);
        let id = id.get(..bytes.into()).unwrap_or_default();
        ids::add(&mut connections.table, slot, id);
    }
    match decode_stream(reading, connections, slot, now_ns) {
        true => Ok(()),
        false => Err("stream"),
    }
}
