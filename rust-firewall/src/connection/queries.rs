// SPDX-License-Identifier: GPL-2.0-or-later
//! Queries of a DNS connection over TCP, one after another (RFC 7766, section 6.2.1).
//!
//! Theory of operation: queries don't align with segments. So a packet is decided by every query of which it contains a
//! byte, once that query is complete, also when the packet is repeated. A packet that fills a gap may complete queries
//! of which it contains no byte. So after pieces have arrived before their predecessors, a packet is also decided by
//! the complete queries after it. An incomplete query is undecided; it decides the packet that completes it.
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    ConnectionCache, ConnectionCause, ConnectionList, ConnectionQueries, Connections, Followed,
    SLOT_NONE,
};
use crate::connection::{lifetime, stream, table};
use crate::names::{dns, NamesState};

/// Maximum number of DNS queries or HTTP requests that decide a packet; a connection with more of them in one packet is
/// unreadable.
pub const QUERIES_MAX: u32 = 128;

/// Length in bytes of the length field before a DNS message.
const LENGTH_BYTES: u32 = 2;
/// Number of stored bytes of a stream above which queries that the server has acknowledged are freed.
const TRIM_BYTES: u32 = BYTES_MAX / 2;

/// Returns the length of the DNS message at an offset, including its length field; 0 if the message is incomplete.
/// - place: offset of the message in `bytes`.
/// - end: end of the available bytes.
fn whole_at(bytes: &[u8], place: u32, end: u32) -> u32 {
    let bytes = bytes.get(place as usize..end as usize).unwrap_or_default();
    let Some(length) = bytes.first_chunk() else {
        return 0;
    };
    let length = LENGTH_BYTES + u32::from(u16::from_be_bytes(*length));
    match length as usize <= bytes.len() {
        true => length,
        false => 0,
    }
}

/// Copies the bytes of a stream, up to its first gap, to `gathered`. Returns their number.
fn gather(connections: &mut Connections, slot: u32) -> u32 {
    let stream = &table::at(&mut connections.table, slot).stream;
    let end = stream::prefix(stream);
    let gathered = &mut connections.gathered[..];
    stream::gather(stream, &mut connections.pool, 0, end, gathered);
    end
}

/// Returns the end of the last DNS message that ends at or before an offset; 0 if there is none.
/// - place: offset in the gathered bytes.
/// - end: end of the gathered bytes.
fn border(connections: &Connections, place: u32, end: u32) -> u32 {
    let mut last = 0;
    loop {
        let bytes = whole_at(&connections.gathered[..], last, end);
        if bytes == 0 || last + bytes > place {
            return last;
        }
        last += bytes;
    }
}

/// Frees the stored queries that the server has acknowledged, if the stream has no gaps. The remaining bytes need no
/// additional memory.
fn trim(connections: &mut Connections, slot: u32, now_ns: u64) {
    let before = table::at(&mut connections.table, slot).stream;
    if before.span_count != 1 {
        return;
    }
    let end = gather(connections, slot);
    let first = border(connections, before.acked, end);
    if first == 0 {
        return;
    }
    let stream = &mut table::at(&mut connections.table, slot).stream;
    stream::release(stream, &mut connections.pool);
    *stream = stream::make(before.base.wrapping_add(first));
    stream.decided = before.decided.saturating_sub(first);
    stream.ahead = before.ahead;
    let left = connections.gathered.get(first as usize..end as usize);
    let put = stream::insert(stream, &mut connections.pool, 0, left.unwrap_or_default());
    stream.acked = before.acked - first;
    if put != StreamPut::Kept {
        lifetime::make_unreadable(connections, slot, ConnectionCause::Pool, now_ns);
    }
}

/// Moves the stream's start after the queries if the server has acknowledged all of them and no later bytes are stored.
/// Otherwise, if many bytes are kept, moves it after the acknowledged queries only.
pub fn rebase(connections: &mut Connections, slot: u32, now_ns: u64) {
    let stream = &mut table::at(&mut connections.table, slot).stream;
    let decided = stream.decided;
    if decided == 0 || stream.acked < decided || stream::has_more(stream) {
        if stream::prefix(stream) > TRIM_BYTES {
            trim(connections, slot, now_ns);
        }
        return;
    }
    let (base, acked) = (stream.base.wrapping_add(decided), stream.acked - decided);
    stream::release(stream, &mut connections.pool);
    *stream = stream::make(base);
    stream.acked = acked;
}

/// Makes the connection unreadable because the current packet can't be decided. Returns true: the packet is decided by
/// unreadable names.
fn give_up(connections: &mut Connections, cause: ConnectionCause, now_ns: u64) -> bool {
    let slot = connections.queries.slot;
    table::at(&mut connections.table, slot).names.state = NamesState::Undecided;
    lifetime::make_unreadable(connections, slot, cause, now_ns);
    connections.queries.slot = SLOT_NONE;
    true
}

/// Moves to the next DNS query that decides the current packet, and stores the query's names as those of the
/// connection. If the query can't be read, or the packet has too many, makes the names unreadable and returns true.
/// Returns false if no query is left.
pub fn next(connections: &mut Connections, now_ns: u64) -> bool {
    let queries = &mut connections.queries;
    let gathered = &connections.gathered[..];
    if queries.slot == SLOT_NONE {
        return false;
    }
    if queries.place >= queries.limit || whole_at(gathered, queries.place, queries.end) == 0 {
        queries.slot = SLOT_NONE;
        return false;
    }
    if queries.left == 0 {
        return give_up(connections, ConnectionCause::Gaps, now_ns);
    }
    queries.left -= 1;
    let bytes = gathered.get(queries.place as usize..queries.end as usize);
    let connection = table::at(&mut connections.table, queries.slot);
    let (state, taken) = dns::framed(bytes.unwrap_or_default(), &mut connection.names);
    if state != NamesState::Known {
        return give_up(connections, ConnectionCause::Parse, now_ns);
    }
    connection.cache = ConnectionCache::default();
    queries.place += taken as u32;
    let protocol = connection.names.protocol as usize;
    let decided = connections.counts.decided.get_mut(protocol);
    if let Some(decided) = decided.filter(|_| queries.place > queries.counted) {
        *decided += 1;
    }
    true
}

/// Records that the messages up to an offset are decided with the current packet, and moves the connection to the list
/// Settling.
fn decide_to(connections: &mut Connections, slot: u32, place: u32, now_ns: u64) {
    let stream = &mut table::at(&mut connections.table, slot).stream;
    if place <= stream.decided {
        return;
    }
    stream.decided = place;
    let list = ConnectionList::Settling;
    table::move_to(&mut connections.table, slot, list, now_ns);
}

/// Handles a packet that completes no query. If the beginning of the next query is invalid, the connection becomes
/// unreadable. Otherwise, if a part of that query is stored, its time limit starts.
/// - grown: true if the packet extended the bytes before the first gap.
fn note_part(connections: &mut Connections, slot: u32, grown: bool, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let decided = connection.stream.decided;
    let end = stream::prefix(&connection.stream);
    if grown {
        let part = connections.gathered.get(decided as usize..end as usize);
        let part = part.unwrap_or_default();
        if dns::framed(part, &mut connection.names).0 == NamesState::Unreadable {
            connection.names.state = NamesState::Undecided;
            lifetime::make_unreadable(connections, slot, ConnectionCause::Parse, now_ns);
            return;
        }
        connection.cache = ConnectionCache::default();
    }
    if stream::has_more(&connection.stream) {
        lifetime::start_showing(connections, slot, now_ns);
    }
}

/// Reads the bytes of a DNS client and moves to the first query that decides the packet.
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
    let stream = &table::at(&mut connections.table, slot).stream;
    let before = stream::prefix(stream);
    if stream.let_go {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    let Some(data) = data.get(..length as usize) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    if offset.saturating_add(length) > BYTES_MAX {
        return lifetime::packet_unreadable(connections, ConnectionCause::Gaps);
    }
    let put = lifetime::store(connections, slot, offset, data, now_ns);
    if put != StreamPut::Kept {
        return lifetime::refuse(connections, slot, put, now_ns);
    }
    let stream = &mut table::at(&mut connections.table, slot).stream;
    stream.ahead |= offset > before;
    let (ahead, counted) = (stream.ahead, stream.decided);
    let end = gather(connections, slot);
    connections.queries = ConnectionQueries {
        slot,
        place: border(connections, offset, end),
        end,
        limit: if ahead { end } else { offset + length },
        counted,
        left: QUERIES_MAX,
    };
    decide_to(connections, slot, border(connections, end, end), now_ns);
    if !next(connections, now_ns) {
        note_part(connections, slot, end > before, now_ns);
    }
    lifetime::packet_names(connections, slot)
}
