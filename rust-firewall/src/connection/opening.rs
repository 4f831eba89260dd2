// SPDX-License-Identifier: GPL-2.0-or-later
//! Opening of TCP connections, and replacement of a connection by a new connection between the same ends.
//!
//! Theory of operation: the first SYN identifies the client. The server's answer identifies the connection by the
//! sequence numbers of both ends, because a client may reuse its own number. A SYN belongs to another connection if the
//! first SYN was answered, or if its number differs from the first SYN's. It changes nothing before the server has
//! answered it: a server that still has the old connection does not answer a SYN (RFC 9293, section 3.10.7.4). A server
//! without state before the client's third segment (SYN cookies) may answer several SYNs; the number that the client
//! acknowledges then shows which SYN it continues.
#![deny(clippy::indexing_slicing)]

use crate::connection::segment::{self, Segment, ACK, SYN};
use crate::connection::types::{
    Connection, ConnectionCache, ConnectionCause, ConnectionList, Connections, Followed,
};
use crate::connection::{direction, lifetime, share, stream, table};
use crate::names::progress::NamesProgress;
use crate::names::{Names, NamesState};

/// Port of DNS servers.
const DNS_PORT: u16 = 53;
/// Maximum distance in bytes by which a server's segment may begin after the server's latest byte: segments may be
/// reordered.
const AHEAD_MAX: u32 = 1 << 20;

/// Returns the sequence number of the first byte after a SYN.
fn first_of(segment: &Segment) -> u32 {
    segment.sequence.wrapping_add(1)
}

/// Handles a SYN of a connection that is not followed, and begins to follow it. Returns the connection's slot.
pub fn begin(connections: &mut Connections, segment: &Segment) -> u32 {
    let now_ns = segment.now_ns;
    let is_buried = table::is_buried(&connections.table, segment.hash, now_ns);
    let list = ConnectionList::Opening;
    let (key, hash) = (&segment.key, segment.hash);
    let slot = lifetime::open(connections, key, hash, segment.is_low, list, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.is_dns = segment.destination_port == DNS_PORT;
    connection.begun = first_of(segment);
    connection.stream.base = connection.begun;
    direction::bind(connection, &segment.input);
    if is_buried {
        lifetime::make_unreadable(connections, slot, ConnectionCause::Ambiguous, now_ns);
    }
    slot
}

/// Returns true if a SYN repeats the first SYN of its connection, which the server has not answered yet.
fn is_first_again(connection: &Connection, segment: &Segment) -> bool {
    !connection.confirmed
        && segment::is_clients(segment, connection)
        && first_of(segment) == connection.begun
        && !direction::is_foreign(connection, segment.is_low, &segment.input)
}

/// Returns true if a SYN may belong to another connection. It may if it comes from the client, or if the old connection
/// is over for both ends, so that they may change their roles. Before that, a client whose SYN was not answered yet
/// answers the server's SYN itself (RFC 9293, section 3.5, figure 7), and the server's packets alone do not show that
/// the client's SYN was answered.
fn may_begin(connection: &Connection, segment: &Segment) -> bool {
    segment::is_clients(segment, connection) || connection.closed && is_finished(connection)
}

/// Returns true if a SYN with ACK answers the pending SYN.
fn answers_pending(connection: &Connection, segment: &Segment) -> bool {
    connection.pending
        && segment.is_low != connection.pending_low
        && segment.acknowledged == connection.pending_base
        && direction::answers_pending(connection, &segment.input)
        && !(connection.confirmed && first_of(segment) == connection.server_begun)
}

/// Returns true if a segment of a denied connection may open another connection.
pub fn restarts(connection: &Connection, segment: &Segment) -> bool {
    match segment.flags & (SYN | ACK) {
        SYN => !is_first_again(connection, segment) && segment::is_clients(segment, connection),
        flags => flags & SYN != 0 && answers_pending(connection, segment),
    }
}

/// Handles a SYN between the ends of a followed connection. Returns None if the SYN repeats the connection's first SYN,
/// which the server has not answered yet. Otherwise it belongs to another connection, which begins when the server
/// answers the SYN; but a SYN from the server's end is unreadable until the old connection is over for both ends.
pub fn begin_again(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
) -> Option<Followed> {
    let connection = table::at(&mut connections.table, slot);
    if is_first_again(connection, segment) {
        return None;
    }
    if !may_begin(connection, segment) {
        connection.crossed |= !connection.confirmed;
        return Some(lifetime::packet_unreadable(
            connections,
            ConnectionCause::Ambiguous,
        ));
    }
    direction::bind_pending(connection, &segment.input);
    connection.pending = true;
    connection.pending_low = segment.is_low;
    connection.pending_base = first_of(segment);
    Some(match segment.length {
        0 => lifetime::packet_undecided(connections),
        _ => lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous),
    })
}

/// Returns true if the server has all bytes that the names were read from, and its later bytes can't change the names.
pub fn is_finished(connection: &Connection) -> bool {
    let stream = &connection.stream;
    let is_known = connection.names.state == NamesState::Known && !connection.may_retry;
    is_known && stream.acked >= stream.decided
}

/// Confirms a connection, and records the server's sequence numbers, from its SYN with ACK.
fn confirm(connection: &mut Connection, segment: &Segment) {
    connection.confirmed = true;
    connection.server_begun = first_of(segment);
    connection.server_end = connection.server_begun.wrapping_add(segment.length);
}

/// Replaces a connection by the connection of the pending SYN, which the server has answered.
fn replace(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    stream::release(&mut connection.stream, &mut connections.pool);
    share::leave(&mut connections.table, slot);
    let connection = table::at(&mut connections.table, slot);
    connection.opened_ns = segment.now_ns;
    connection.begun = connection.pending_base;
    connection.stream = stream::make(connection.begun);
    connection.is_dns = segment.source_port == DNS_PORT;
    connection.client_low = connection.pending_low;
    let client_low = connection.client_low;
    direction::confirm_pending(connection, &segment.input);
    confirm(connection, segment);
    connection.pending = false;
    connection.client_passed = 0;
    connection.server_passed = 0;
    connection.closed = false;
    connection.evasion = false;
    connection.denied = 0;
    connection.is_reset = false;
    connection.may_retry = false;
    connection.may_switch = false;
    connection.syn_data = false;
    connection.crossed = false;
    connection.cache = ConnectionCache::default();
    connection.names = Names {
        state: NamesState::Undecided,
        ..Names::default()
    };
    connection.progress = NamesProgress::default();
    let place = share::place(&connections.table, &segment.key, client_low);
    share::enter(&mut connections.table, slot, place);
    connections.counts.opened += 1;
    let list = ConnectionList::Opening;
    table::move_to(&mut connections.table, slot, list, segment.now_ns);
    lifetime::packet_names(connections, slot)
}

/// Handles a SYN with ACK, the answer to a SYN. An answer to the pending SYN replaces the connection by the new one.
/// The first answer to the first SYN confirms the connection; a repetition changes nothing. A SYN with ACK from the
/// client, or by another interface than the server's, is unreadable. After any other answer it is uncertain which
/// connection the server has: the packet is unreadable, and the names become unreadable, too, unless they are finished
/// (is_finished) and no SYN is pending. If both ends have sent a SYN (`crossed`), every SYN with ACK of the server
/// makes the names unreadable.
pub fn answer(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if connection.crossed && !segment::is_clients(segment, connection) {
        // Both ends have sent a SYN, so either may be the client.
        let cause = ConnectionCause::Ambiguous;
        return lifetime::make_unreadable(connections, slot, cause, segment.now_ns);
    }
    if answers_pending(connection, segment) {
        return replace(connections, slot, segment);
    }
    if segment::is_clients(segment, connection) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    if direction::is_foreign(connection, segment.is_low, &segment.input) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Interface);
    }
    let distance = segment.acknowledged.wrapping_sub(connection.begun);
    let is_ours = distance == 0 || distance <= stream::prefix(&connection.stream);
    if is_ours && !connection.confirmed {
        confirm(connection, segment);
        direction::bind_server(connection, &segment.input);
        return lifetime::packet_names(connections, slot);
    }
    if is_ours && first_of(segment) == connection.server_begun {
        return lifetime::packet_names(connections, slot);
    }
    // While a SYN is pending, the server may have answered an earlier SYN, and the client may continue that connection.
    if is_finished(connection) && !connection.pending {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    let cause = ConnectionCause::Ambiguous;
    lifetime::make_unreadable(connections, slot, cause, segment.now_ns)
}

/// Stores the sequence number after a server's segment in `server_end`, if the segment ends later than all earlier
/// segments. `server_end` stays at most 2^32 - 1 bytes after the server's first byte. Returns false if the server has
/// not answered the client's SYN, or if the segment does not begin between the server's first byte and AHEAD_MAX bytes
/// after its latest byte.
pub fn hear(connection: &mut Connection, segment: &Segment) -> bool {
    if !connection.confirmed {
        return false;
    }
    let offset = segment.sequence.wrapping_sub(connection.server_begun);
    let seen = connection.server_end.wrapping_sub(connection.server_begun);
    if offset > seen.saturating_add(AHEAD_MAX) {
        return false;
    }
    let end = offset.saturating_add(segment.length + u32::from(segment.flags & segment::FIN));
    if end > seen {
        connection.server_end = connection.server_begun.wrapping_add(end);
    }
    true
}

/// Returns true if a client's segment acknowledges bytes of the server in this connection, at least its SYN.
pub fn is_acknowledging(connection: &Connection, segment: &Segment) -> bool {
    let acknowledged = segment.acknowledged.wrapping_sub(connection.server_begun);
    let seen = connection.server_end.wrapping_sub(connection.server_begun);
    segment.flags & ACK != 0 && acknowledged <= seen
}
