// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests of an HTTP connection, one after another (RFC 9112, section 9.3).
//!
//! Theory of operation: each request is read like the first, and a packet is decided by each request that it completes.
//! A packet that repeats bytes that the server has not acknowledged is decided again by all kept requests. Bodies
//! between the requests pass unread; the header or the head of a chunk gives their length. Acknowledged bytes are
//! dropped, so that the stream begins with the next request or chunk, which may be far ahead. Bytes that are not a
//! request make the connection unreadable, unless the server has made the connection a tunnel from that point on: then
//! nothing more is read. Requests are followed while the policy reads them. Afterwards the position in the requests is
//! unknown, so the connection is unreadable for a later policy that reads them.
#![deny(clippy::indexing_slicing)]

use crate::connection::queries::QUERIES_MAX;
use crate::connection::segment::Segment;
use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    Connection, ConnectionCache, ConnectionCause, ConnectionInput, ConnectionList,
    ConnectionQueries, Connections, Followed, Requests, RequestsAwaited, Stream, SLOT_NONE,
};
use crate::connection::{lifetime, stream, table};
use crate::names::body::{self, NamesBody, NamesChunk};
use crate::names::progress::NamesProgress;
use crate::names::{http, Names, NamesProtocol, NamesState};

/// Maximum number of bytes by which a stream's start is moved at once. It is less than half of all sequence numbers, so
/// that positions before and after the start are distinguishable.
const STEP_BYTES: u64 = 1 << 30;

/// Offset of the status code in a server's first line.
const STATUS_PLACE: usize = 9;
const STATUS_BYTES: usize = 3;

const PROTOCOL: &[u8] = b"HTTP/1.";

fn is_http(connection: &Connection) -> bool {
    connection.names.state == NamesState::Known && connection.names.protocol == NamesProtocol::Http
}

/// Returns true if the firewall reads the next bytes of a client as an HTTP request or a chunk. Returns false for
/// connections without known names of HTTP, for tunnels, and for connections whose policy did not read all requests.
pub fn go_on(connection: &Connection) -> bool {
    let awaited = connection.requests.awaited;
    is_http(connection) && matches!(awaited, RequestsAwaited::Header | RequestsAwaited::Chunk)
}

/// Returns the end of the last stored piece of a stream; 0 if no piece is stored.
fn kept_end(stream: &Stream) -> u32 {
    let last = stream
        .spans
        .iter()
        .take(stream.span_count.into())
        .next_back();
    last.map_or(0, |last| last.end.into())
}

/// Records that the position of later requests is lost, if the policy does not read requests. Returns true if the
/// policy reads requests, and an earlier policy did not read all requests of this connection.
pub fn are_lost(connection: &mut Connection, input: &ConnectionInput) -> bool {
    if !input.asks_requests && go_on(connection) {
        connection.requests.awaited = RequestsAwaited::Lost;
    }
    let is_lost = connection.requests.awaited == RequestsAwaited::Lost;
    input.asks_requests && is_http(connection) && is_lost
}

/// Reads the status of a server's first response, to detect that the connection becomes a tunnel.
pub fn hear(connection: &mut Connection, segment: &Segment) {
    if segment.sequence != connection.server_begun || segment.length == 0 {
        return;
    }
    connection.may_switch = false;
    let status = segment.data.get(STATUS_PLACE..STATUS_PLACE + STATUS_BYTES);
    let Some(status) = status.filter(|_| segment.data.starts_with(PROTOCOL)) else {
        return;
    };
    let method = connection
        .names
        .method
        .get(..connection.names.method_length.into());
    // A CONNECT tunnel begins with any successful status (RFC 9110, section 9.3.6).
    if status == b"101" || status.starts_with(b"2") && method == Some(b"CONNECT") {
        connection.requests.awaited = RequestsAwaited::Nothing;
    }
}

/// Moves the stream's start to the next request or chunk, by at most STEP_BYTES, if the server has acknowledged the
/// bytes that were parsed. Does nothing while bytes of a later request are stored after a gap.
pub fn rebase(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let stream = &mut connection.stream;
    let next = connection.requests.next;
    let (base, acked, last) = (stream.base, stream.acked, kept_end(stream));
    let (end, step) = (stream::prefix(stream), next.min(STEP_BYTES) as u32);
    let kept = match u64::from(end) > next {
        true => end - step,
        false => 0,
    };
    // Bytes after a gap wait until the gap is filled.
    if step == 0 || acked == 0 || acked < stream.decided || last > end && u64::from(last) > next {
        return;
    }
    if kept > 0 {
        let gathered = &mut connections.gathered[..];
        stream::gather(stream, &mut connections.pool, step, end, gathered);
    }
    stream::release(stream, &mut connections.pool);
    *stream = stream::make(base.wrapping_add(step));
    connection.requests.next -= u64::from(step);
    connection.requests_begun = connection.requests;
    let bytes = connections
        .gathered
        .get(..kept as usize)
        .unwrap_or_default();
    let put = stream::insert(stream, &mut connections.pool, 0, bytes);
    stream.acked = acked.saturating_sub(step);
    if put != StreamPut::Kept {
        lifetime::make_unreadable(connections, slot, ConnectionCause::Pool, now_ns);
        return;
    }
    if kept == 0 && connection.list == ConnectionList::Settling {
        let list = match connection.closed {
            true => ConnectionList::Closing,
            false => ConnectionList::Known,
        };
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Moves past the header of a request (or the head of a chunk) and the body that follows it.
/// - head_bytes: length of the header.
/// - body_bytes: length of the body.
fn pass(connections: &mut Connections, head_bytes: u32, body_bytes: u64, now_ns: u64) {
    let queries = &mut connections.queries;
    let connection = table::at(&mut connections.table, queries.slot);
    let decided = queries.place + head_bytes;
    connection.requests.next = u64::from(decided) + body_bytes;
    connection.progress = NamesProgress::default();
    queries.place = connection.requests.next.min(queries.end.into()) as u32;
    if decided <= connection.stream.decided {
        return;
    }
    connection.stream.decided = decided;
    let list = ConnectionList::Settling;
    table::move_to(&mut connections.table, queries.slot, list, now_ns);
}

/// Reads the head of a chunk of a body. If the head is complete and valid, moves past the chunk. Returns the result of
/// `body::chunk`.
fn skip_chunk(connections: &mut Connections, now_ns: u64) -> NamesState {
    let mut chunk = NamesChunk::default();
    let queries = &connections.queries;
    let bytes = connections
        .gathered
        .get(queries.place as usize..queries.end as usize);
    let state = body::chunk(bytes.unwrap_or_default(), &mut chunk);
    if state != NamesState::Known {
        return state;
    }
    if chunk.bytes == 0 {
        let slot = connections.queries.slot;
        let connection = table::at(&mut connections.table, slot);
        connection.requests.awaited = RequestsAwaited::Header;
    }
    pass(connections, chunk.head_bytes, chunk.bytes, now_ns);
    NamesState::Known
}

/// Stores the names of a request that decides the current packet.
fn note(connections: &mut Connections, names: &Names, body: &NamesBody, now_ns: u64) {
    let queries = &connections.queries;
    let connection = table::at(&mut connections.table, queries.slot);
    let is_first = queries.place == 0 && connection.stream.base == connection.begun;
    connection.names = *names;
    connection.cache = ConnectionCache::default();
    connection.requests.awaited = match body.is_chunked {
        true => RequestsAwaited::Chunk,
        false => RequestsAwaited::Header,
    };
    // For a later request, the position of the response in the server's bytes is unknown.
    connection.may_switch =
        body.switches && is_first && connection.server_end == connection.server_begun;
    let is_new = queries.place + body.header_bytes > queries.counted;
    let decided = connections
        .counts
        .decided
        .get_mut(NamesProtocol::Http as usize);
    if let Some(decided) = decided.filter(|_| is_new) {
        *decided += 1;
    }
    pass(connections, body.header_bytes, body.length, now_ns);
}

/// Reads the header of an HTTP request. Returns the state, and true if the header is complete: then the request decides
/// the current packet.
fn parse_header(connections: &mut Connections, now_ns: u64) -> (NamesState, bool) {
    let queries = &connections.queries;
    let bytes = connections
        .gathered
        .get(queries.place as usize..queries.end as usize);
    let bytes = bytes.unwrap_or_default();
    let progress = &mut table::at(&mut connections.table, queries.slot).progress;
    if progress.searched == 0 && bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
        pass(connections, bytes.len() as u32, 0, now_ns);
        return (NamesState::Known, false);
    }
    let (mut body, mut names) = (NamesBody::default(), Names::default());
    let state = match http::begins(bytes, progress) {
        NamesState::Known => http::parse(bytes, false, progress, &mut body, &mut names),
        state => state,
    };
    let is_read = state == NamesState::Known;
    if state == NamesState::None || is_read && names.protocol != NamesProtocol::Http {
        return (NamesState::Unreadable, false);
    }
    if is_read {
        note(connections, &names, &body, now_ns);
    }
    (state, is_read)
}

/// Makes the connection unreadable because the current packet can't be decided. Returns true: the packet is decided by
/// unreadable names.
fn give_up(connections: &mut Connections, cause: ConnectionCause, now_ns: u64) -> bool {
    let slot = connections.queries.slot;
    lifetime::make_unreadable(connections, slot, cause, now_ns);
    connections.queries.slot = SLOT_NONE;
    true
}

/// Moves to the next HTTP request that decides the current packet, and stores the request's names as those of the
/// connection. If the request can't be read, or the packet has too many, makes the names unreadable and returns true.
/// Returns false if no complete request is left.
pub fn next(connections: &mut Connections, now_ns: u64) -> bool {
    loop {
        let queries = &mut connections.queries;
        let slot = queries.slot;
        if slot == SLOT_NONE || queries.place >= queries.end {
            break;
        }
        let length = queries.end - queries.place;
        let awaited = table::at(&mut connections.table, slot).requests.awaited;
        let is_chunk = awaited == RequestsAwaited::Chunk;
        if !is_chunk {
            if queries.left == 0 {
                return give_up(connections, ConnectionCause::Gaps, now_ns);
            }
            queries.left -= 1;
        }
        let (state, is_read) = match is_chunk {
            true => (skip_chunk(connections, now_ns), false),
            false => parse_header(connections, now_ns),
        };
        match state {
            NamesState::Known if is_read => return true,
            NamesState::Known => {}
            NamesState::Undecided if length < BYTES_MAX => {
                lifetime::start_showing(connections, slot, now_ns);
                break;
            }
            _ => return give_up(connections, ConnectionCause::Parse, now_ns),
        }
    }
    connections.queries.slot = SLOT_NONE;
    false
}

/// Reads the bytes of a stream before its first gap, and moves to the first request that decides the packet.
/// - place: offset at which the reading begins.
fn parse(connections: &mut Connections, slot: u32, place: u64, now_ns: u64) -> Followed {
    let stream = &table::at(&mut connections.table, slot).stream;
    let end = stream::prefix(stream);
    if place >= u64::from(end) {
        return lifetime::packet_names(connections, slot);
    }
    let gathered = &mut connections.gathered[..];
    stream::gather(stream, &mut connections.pool, 0, end, gathered);
    connections.queries = ConnectionQueries {
        slot,
        place: place as u32,
        end,
        counted: stream.decided,
        left: QUERIES_MAX,
        ..ConnectionQueries::default()
    };
    next(connections, now_ns);
    lifetime::packet_names(connections, slot)
}

/// Reads the first bytes of a stream of requests. The first request decides the current packet. If the policy reads no
/// requests, the later requests are lost.
pub fn begin(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    connection.requests = Requests::default();
    connection.requests_begun = connection.requests;
    connection.progress = NamesProgress::default();
    if segment.input.asks_requests {
        return parse(connections, slot, 0, segment.now_ns);
    }
    connection.requests.awaited = RequestsAwaited::Lost;
    let end = stream::prefix(&connection.stream);
    lifetime::decide(connections, slot, end, segment.now_ns);
    lifetime::packet_names(connections, slot)
}

/// Reads the bytes of a client and moves to the first request that decides the packet.
/// - offset: offset in the stream of the first byte of `data`.
/// - data: captured bytes of the packet from `offset` on.
/// - length: number of bytes of the packet from `offset` on, captured or not.
pub fn follow(
    connections: &mut Connections,
    slot: u32,
    offset: u32,
    data: &[u8],
    length: u32,
    now_ns: u64,
) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    let needed = length.min(BYTES_MAX.saturating_sub(offset));
    let before = stream::prefix(&connection.stream);
    let end = u64::from(offset) + u64::from(length);
    let is_body = offset >= connection.stream.decided && end <= connection.requests.next;
    if connection.stream.let_go {
        return match is_body {
            true => lifetime::packet_names(connections, slot),
            false => lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous),
        };
    }
    if needed < length && !is_body {
        return lifetime::packet_unreadable(connections, ConnectionCause::Gaps);
    }
    let Some(data) = data.get(..needed as usize) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    let put = lifetime::store(connections, slot, offset, data, now_ns);
    if put != StreamPut::Kept {
        return lifetime::refuse(connections, slot, put, now_ns);
    }
    let connection = table::at(&mut connections.table, slot);
    if offset < connection.stream.decided {
        connection.requests = connection.requests_begun;
        connection.progress = NamesProgress::default();
        let next = connection.requests.next;
        return parse(connections, slot, next, now_ns);
    }
    let is_next = offset <= before && stream::prefix(&connection.stream) == offset + needed;
    // A header that has begun stays incomplete until a line ends.
    if connection.list == ConnectionList::Showing
        && is_next
        && offset + needed < BYTES_MAX
        && connection.requests.awaited == RequestsAwaited::Header
        && !data.contains(&b'\n')
    {
        return lifetime::packet_names(connections, slot);
    }
    let next = connection.requests.next;
    parse(connections, slot, next, now_ns)
}
