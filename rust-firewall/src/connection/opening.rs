// SPDX-License-Identifier: GPL-2.0-or-later
//! How a connection of TCP opens, and how another one takes its place between the same ends.
//!
//! Theory of operation: the first SYN says who the client is, and the server's answer to it which connection this is: both ends'
//! numbers, not the client's alone, which a client may choose again. A SYN is that of another connection if the first one was answered or if it
//! has another number. It changes nothing before the server has answered it: a server that still has the old connection answers no SYN
//! (RFC 9293, section 3.10.7.4). One that keeps no state before its client's third segment (SYN cookies) may answer several; there the
//! numbers that a client acknowledges tell which of them it goes on with.
#![deny(clippy::indexing_slicing)]

use crate::connection::segment::{self, Segment, ACK, SYN};
use crate::connection::types::{
    Connection, ConnectionCache, ConnectionCause, ConnectionList, Connections, Followed,
};
use crate::connection::{direction, lifetime, share, stream, table};
use crate::names::{Names, NamesState};

/// Port of DNS servers.
const DNS_PORT: u16 = 53;
/// How far a server's segment may lie behind what was seen of it: segments come in another order.
const AHEAD_MAX: u32 = 1 << 20;

/// The number of the first byte behind a SYN.
fn first_of(segment: &Segment) -> u32 {
    segment.sequence.wrapping_add(1)
}

/// A SYN of a connection that is not followed. Returns the connection's slot.
pub fn begin(connections: &mut Connections, segment: &Segment) -> u32 {
    let now_ns = segment.now_ns;
    let is_buried = table::is_buried(&connections.table, &segment.key, now_ns);
    let list = ConnectionList::Opening;
    let slot = lifetime::open(connections, &segment.key, segment.is_low, list, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.is_dns = segment.destination_port == DNS_PORT;
    connection.begun = first_of(segment);
    connection.stream.base = connection.begun;
    direction::bind(connection, &segment.input);
    if is_buried {
        lifetime::unreadable(connections, slot, ConnectionCause::Ambiguous, now_ns);
    }
    slot
}

/// Whether a SYN is the first one of its connection, again.
fn is_first_again(connection: &Connection, segment: &Segment) -> bool {
    !connection.confirmed
        && segment::is_clients(segment, connection)
        && first_of(segment) == connection.begun
        && !direction::is_foreign(connection, segment.is_low, &segment.input)
}

/// Whether a SYN may be that of another connection. The ends change their roles only once the old connection is over for both: a client whose SYN
/// was not answered yet answers a SYN itself (RFC 9293, section 3.5, figure 7), and nothing that its server says alone shows that it was.
fn may_begin(connection: &Connection, segment: &Segment) -> bool {
    segment::is_clients(segment, connection) || connection.closed && is_finished(connection)
}

/// Whether a server's answer to a SYN is that to the SYN that is pending.
fn answers_pending(connection: &Connection, segment: &Segment) -> bool {
    connection.pending
        && segment.is_low != connection.pending_low
        && segment.acknowledged == connection.pending_base
        && direction::answers_pending(connection, &segment.input)
        && !(connection.confirmed && first_of(segment) == connection.server_begun)
}

/// Whether a segment of a connection that is denied may open another one.
pub fn restarts(connection: &Connection, segment: &Segment) -> bool {
    match segment.flags & (SYN | ACK) {
        SYN => !is_first_again(connection, segment) && segment::is_clients(segment, connection),
        flags => flags & SYN != 0 && answers_pending(connection, segment),
    }
}

/// A SYN of a connection that is followed: its first one again, or that of another connection, which
/// is none before the server has answered it. Returns None for the first one again.
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
        return Some(lifetime::odd(connections, ConnectionCause::Ambiguous));
    }
    direction::bind_pending(connection, &segment.input);
    connection.pending = true;
    connection.pending_low = segment.is_low;
    connection.pending_base = first_of(segment);
    Some(match segment.length {
        0 => lifetime::fresh(connections),
        _ => lifetime::odd(connections, ConnectionCause::Ambiguous),
    })
}

/// Whether the server has all of what was decided on, and nothing that it has yet to say can change that.
pub fn is_finished(connection: &Connection) -> bool {
    let stream = &connection.stream;
    let is_known = connection.names.state == NamesState::Known && !connection.may_retry;
    is_known && stream.acked >= stream.decided
}

/// Notes what the server calls its first byte.
fn confirm(connection: &mut Connection, segment: &Segment) {
    connection.confirmed = true;
    connection.server_begun = first_of(segment);
    connection.server_end = connection.server_begun.wrapping_add(segment.length);
}

/// A connection takes the place of another one between the same ends, since its SYN was answered.
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
    direction::take_pending(connection, &segment.input);
    confirm(connection, segment);
    connection.pending = false;
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
    let place = share::place(&connections.table, &segment.key, client_low);
    share::enter(&mut connections.table, slot, place);
    connections.counts.opened += 1;
    let list = ConnectionList::Opening;
    table::move_to(&mut connections.table, slot, list, segment.now_ns);
    lifetime::named(connections, slot)
}

/// A server's answer to a SYN. One that answers a SYN that nobody sent, while the server may still have our connection, makes it unknown which
/// one it has.
pub fn answer(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if connection.crossed && !segment::is_clients(segment, connection) {
        // Both ends have begun, so that either may be the client.
        let cause = ConnectionCause::Ambiguous;
        return lifetime::unreadable(connections, slot, cause, segment.now_ns);
    }
    if answers_pending(connection, segment) {
        return replace(connections, slot, segment);
    }
    if segment::is_clients(segment, connection) {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    if direction::is_foreign(connection, segment.is_low, &segment.input) {
        return lifetime::odd(connections, ConnectionCause::Interface);
    }
    let distance = segment.acknowledged.wrapping_sub(connection.begun);
    let is_ours = distance == 0 || distance <= stream::prefix(&connection.stream);
    if is_ours && !connection.confirmed {
        confirm(connection, segment);
        direction::bind_server(connection, &segment.input);
        return lifetime::named(connections, slot);
    }
    if is_ours && first_of(segment) == connection.server_begun {
        return lifetime::named(connections, slot);
    }
    if is_finished(connection) {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    let cause = ConnectionCause::Ambiguous;
    lifetime::unreadable(connections, slot, cause, segment.now_ns)
}

/// Notes how far a server's bytes go. Returns whether a segment of its can be one of this connection.
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

/// Whether a client's segment acknowledges what the server has said in this connection: its SYN at least.
pub fn is_acknowledging(connection: &Connection, segment: &Segment) -> bool {
    let acknowledged = segment.acknowledged.wrapping_sub(connection.server_begun);
    let seen = connection.server_end.wrapping_sub(connection.server_begun);
    segment.flags & ACK != 0 && acknowledged <= seen
}
