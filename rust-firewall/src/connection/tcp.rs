// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP connections (RFC 9293).
//!
//! Theory of operation: a deceptive client sends packets that its server ignores: a second SYN, bytes that never
//! arrive, a false FIN or RST. So a client's packets alone never change the start of its stream: the server's SYN-ACK
//! shows which SYN it accepted, and before that only the bytes on the SYN are read. Stored bytes are compared with all
//! later bytes for the same position until the server has acknowledged them; after that the server accepts no other
//! bytes. So bytes that the server has acknowledged before the firewall has seen them stay unknown. A packet that would
//! complete a name and can't be read is itself unreadable, and its bytes are not recorded as seen.
#![deny(clippy::indexing_slicing)]

use crate::connection::segment::{self, Segment, ACK, FIN, RST, SYN, URG};
use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    ConnectionCause, ConnectionChecksum, ConnectionInput, ConnectionList, Connections, Followed,
    FollowedKind, INTERFACE_HOST, INTERFACE_UNKNOWN, SLOT_NONE,
};
use crate::connection::{
    checksum, direction, lifetime, opening, queries, requests, retry, stream, table,
};
use crate::names::progress::NamesProgress;
use crate::names::{client, NamesProtocol, NamesState};
use crate::packet::Packet;

/// Returns the result for a packet of a connection with known names. The bytes from offset BYTES_MAX on are not stored:
/// if they may show another name, the packet is unreadable.
/// - end: offset in the stream after the packet's last byte.
/// - followed: result according to the stored bytes.
fn check_end(connections: &mut Connections, slot: u32, end: u32, followed: Followed) -> Followed {
    if end <= BYTES_MAX || followed.kind == FollowedKind::Denied {
        return followed;
    }
    let connection = table::at(&mut connections.table, slot);
    let is_body = u64::from(end) <= connection.requests.next;
    if !connection.may_retry && (!requests::go_on(connection) || is_body) {
        return followed;
    }
    connections.queries.slot = SLOT_NONE;
    lifetime::packet_unreadable(connections, ConnectionCause::Gaps)
}

/// Compares repeated and late bytes with the bytes that the names were read from; different bytes are an evasion. If a
/// server may request another ClientHello, the bytes after the first ClientHello are read as well.
fn follow_known(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
    offset: u32,
    data: &[u8],
    length: u32,
) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    let (stream, may_retry) = (&connection.stream, connection.may_retry);
    if opening::is_finished(connection) || !may_retry && offset >= stream.decided {
        return lifetime::packet_names(connections, slot);
    }
    let limit = if may_retry { BYTES_MAX } else { stream.decided };
    let needed = length.min(limit.saturating_sub(offset));
    if stream.let_go {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    let before = stream::prefix(stream);
    let Some(data) = data.get(..needed as usize) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    let put = lifetime::store(connections, slot, offset, data, segment.now_ns);
    if put != StreamPut::Kept {
        return lifetime::refuse(connections, slot, put, segment.now_ns);
    }
    let after = stream::prefix(&table::at(&mut connections.table, slot).stream);
    let followed = match may_retry && after > before {
        true => retry::parse(connections, slot, segment.now_ns),
        false => lifetime::packet_names(connections, slot),
    };
    check_end(connections, slot, offset + length, followed)
}

/// Parses a client's names from the bytes of its stream before the first gap.
/// - data: bytes of the latest segment; offset: their offset in the stream.
fn parse(connections: &mut Connections, slot: u32, offset: u32, data: &[u8]) -> NamesState {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let (gathered, scratch) = (&mut connections.gathered, &mut connections.scratch);
    let whole = end >= BYTES_MAX;
    let (progress, names) = (&mut connection.progress, &mut connection.names);
    if offset == 0 && data.len() as u32 == end {
        return client::parse(data, whole, scratch, progress, names);
    }
    stream::gather(
        &connection.stream,
        &mut connections.pool,
        0,
        end,
        &mut gathered[..],
    );
    let bytes = gathered.get(..end as usize).unwrap_or_default();
    client::parse(bytes, whole, scratch, progress, names)
}

/// Returns true if the latest segment can't decide an undecided connection, so that its stream need not be parsed.
/// - before: number of bytes before the first gap, without the latest segment.
/// - data: bytes of the latest segment; offset: their offset in the stream.
fn waits(connections: &mut Connections, slot: u32, before: u32, offset: u32, data: &[u8]) -> bool {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let added = before
        .checked_sub(offset)
        .and_then(|read| data.get(read as usize..));
    if end >= BYTES_MAX || offset + data.len() as u32 != end {
        return false;
    }
    let (progress, names) = (&connection.progress, &connection.names);
    added.is_some_and(|added| client::waits(names, progress, added, end))
}

/// Records that a client has sent its names.
/// - place: end of the bytes that the names were read from, as an offset in the stream.
fn decide(connections: &mut Connections, slot: u32, place: u32, now_ns: u64) -> Followed {
    lifetime::decide(connections, slot, place, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.progress = NamesProgress::default();
    connection.may_retry = retry::can(&connection.names);
    if !connection.may_retry {
        return lifetime::packet_names(connections, slot);
    }
    if connection.server_end != connection.server_begun {
        // The part of the server's bytes that answers the ClientHello is unknown.
        let cause = ConnectionCause::Ambiguous;
        return lifetime::make_unreadable(connections, slot, cause, now_ns);
    }
    retry::parse(connections, slot, now_ns)
}

/// Reads the bytes of a client that has not sent its names completely.
fn follow_undecided(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
    offset: u32,
    data: &[u8],
    length: u32,
) -> Followed {
    let needed = length.min(BYTES_MAX.saturating_sub(offset));
    if needed == 0 {
        return lifetime::packet_unreadable(connections, ConnectionCause::Gaps);
    }
    let Some(data) = data.get(..needed as usize) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    lifetime::start_showing(connections, slot, segment.now_ns);
    let connection = table::at(&mut connections.table, slot);
    let before = stream::prefix(&connection.stream);
    let put = lifetime::store(connections, slot, offset, data, segment.now_ns);
    if put != StreamPut::Kept {
        return lifetime::refuse(connections, slot, put, segment.now_ns);
    }
    let after = stream::prefix(&table::at(&mut connections.table, slot).stream);
    let is_more = after > before && !waits(connections, slot, before, offset, data);
    let state = match is_more {
        true => parse(connections, slot, offset, data),
        false => NamesState::Undecided,
    };
    let protocol = table::at(&mut connections.table, slot).names.protocol;
    match state {
        NamesState::Known => {
            let followed = match protocol {
                NamesProtocol::Http => requests::begin(connections, slot, segment),
                _ => decide(connections, slot, after, segment.now_ns),
            };
            return check_end(connections, slot, offset + length, followed);
        }
        NamesState::Undecided if needed < length => {
            return lifetime::packet_unreadable(connections, ConnectionCause::Gaps);
        }
        NamesState::Undecided => {}
        _ => {
            table::at(&mut connections.table, slot).names.state = NamesState::Undecided;
            let cause = ConnectionCause::Parse;
            return lifetime::make_unreadable(connections, slot, cause, segment.now_ns);
        }
    }
    lifetime::packet_names(connections, slot)
}

/// Returns true if the kernel writes the segment's checksum later, and the firewall can't return the packet with its
/// checksum, because it was not copied whole. False for combined packets, and for packets of this host or of an unknown
/// interface: with a large MTU, as that of the loopback device, this host's TCP sends such packets all the time.
fn is_changing(segment: &Segment) -> bool {
    let input = &segment.input;
    (segment.data.len() as u32) < segment.length
        && !input.segmented
        && input.checksum == ConnectionChecksum::NotReady
        && ![INTERFACE_HOST, INTERFACE_UNKNOWN].contains(&input.source_interface)
}

/// Reads a client's data. Bytes before the start of the stream are skipped.
/// - sequence: sequence number of the data's first byte.
fn follow_data(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
    sequence: u32,
) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if requests::are_lost(connection, &segment.input) {
        let cause = ConnectionCause::Ambiguous;
        return lifetime::make_unreadable(connections, slot, cause, segment.now_ns);
    }
    let (is_dns, goes_on) = (connection.is_dns, requests::go_on(connection));
    if is_dns {
        queries::rebase(connections, slot, segment.now_ns);
    } else if goes_on {
        requests::rebase(connections, slot, segment.now_ns);
    }
    let connection = table::at(&mut connections.table, slot);
    let distance = sequence.wrapping_sub(connection.stream.base) as i32;
    let skipped = distance.min(0).unsigned_abs().min(segment.length);
    let length = segment.length - skipped;
    let data = segment.data.get(skipped as usize..).unwrap_or_default();
    let offset = distance.max(0) as u32;
    match connection.names.state {
        NamesState::Unreadable => lifetime::packet_names(connections, slot),
        _ if length == 0 => lifetime::packet_names(connections, slot),
        _ if is_dns => queries::follow(connections, slot, offset, data, length, segment.now_ns),
        _ if goes_on => requests::follow(connections, slot, offset, data, length, segment.now_ns),
        NamesState::Known => follow_known(connections, slot, segment, offset, data, length),
        _ => follow_undecided(connections, slot, segment, offset, data, length),
    }
}

/// Reads a server's bytes, and its acknowledgement of the client's bytes.
fn hear(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if !opening::hear(connection, segment) {
        return lifetime::packet_names(connections, slot);
    }
    if connection.may_retry {
        retry::hear(connection, segment);
    }
    if connection.may_switch {
        requests::hear(connection, segment);
    }
    let stream = &mut connection.stream;
    let distance = segment.acknowledged.wrapping_sub(stream.base);
    let is_ahead = distance > stream.acked && distance <= i32::MAX as u32;
    if segment.flags & ACK != 0 && is_ahead {
        stream.acked = distance;
    }
    match requests::go_on(connection) {
        true => requests::rebase(connections, slot, segment.now_ns),
        false => retry::settle(connections, slot, segment.now_ns),
    }
    lifetime::packet_names(connections, slot)
}

/// Handles a segment without SYN of a connection that is not denied.
fn go_on(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if direction::is_foreign(connection, segment.is_low, &segment.input) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Interface);
    }
    lifetime::touch(connections, slot, segment.now_ns);
    if segment.flags & (FIN | RST) != 0 {
        lifetime::close(connections, slot, segment.now_ns);
    }
    let connection = table::at(&mut connections.table, slot);
    if !segment::is_clients(segment, connection) {
        return hear(connections, slot, segment);
    }
    let is_over = opening::is_finished(connection) && !requests::go_on(connection);
    let is_dns = connection.is_dns;
    // The receiver removes the urgent byte from the stream (RFC 6093), and the position of this byte is uncertain.
    if segment.flags & URG != 0 && (!is_over || is_dns) {
        let cause = ConnectionCause::Ambiguous;
        return lifetime::make_unreadable(connections, slot, cause, segment.now_ns);
    }
    let is_acknowledging = connection.confirmed && opening::is_acknowledging(connection, segment);
    if segment.length == 0 {
        if is_acknowledging {
            lifetime::establish(connections, slot, segment.now_ns);
        }
        return lifetime::packet_names(connections, slot);
    }
    if !is_over && !is_acknowledging {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    if is_changing(segment) && (!is_over || is_dns) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    }
    follow_data(connections, slot, segment, segment.sequence)
}

/// Returns true if a segment needs a correct checksum: it has SYN, FIN, RST or URG, or its connection is not in the
/// list Known, or may show more names. The receiver ignores a segment with an incorrect checksum.
fn is_noted(connections: &mut Connections, slot: u32, segment: &Segment) -> bool {
    let connection = table::at(&mut connections.table, slot);
    let is_known = connection.list == ConnectionList::Known
        && !connection.is_dns
        && !requests::go_on(connection);
    segment.flags & (SYN | FIN | RST | URG) != 0 || !is_known || connection.may_retry
}

/// Handles a segment of a denied connection. Segments without data pass in two cases. While a new SYN is pending, RSTs
/// and the server's segments pass: the server's ACK contains the number that it expects, and the client answers it with
/// a RST that ends the old connection. After both ends are notified, the RSTs that notify them pass, if they come
/// through the queue.
fn denied(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    let is_reset = segment.flags & RST != 0;
    let is_servers = !segment::is_clients(segment, connection);
    let passes = match segment.flags & (SYN | FIN) {
        0 if is_reset => connection.is_reset || connection.pending,
        0 => connection.pending && is_servers,
        _ => false,
    };
    if passes && segment.length == 0 {
        return lifetime::packet_undecided(connections);
    }
    if segment.flags & SYN == 0 {
        lifetime::touch(connections, slot, segment.now_ns);
    }
    let kind = FollowedKind::Denied;
    Followed { kind, slot }
}

/// Handles a SYN without ACK.
fn open(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    if is_changing(segment) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    }
    let slot = match slot {
        SLOT_NONE => opening::begin(connections, segment),
        slot => match opening::begin_again(connections, slot, segment) {
            Some(followed) => return followed,
            None => slot,
        },
    };
    table::at(&mut connections.table, slot).syn_data |= segment.length > 0;
    follow_data(connections, slot, segment, segment.sequence.wrapping_add(1))
}

/// Updates the connection of a TCP packet, and reads the names in a client's data. Returns whether the packet has names
/// or is denied, and the slot of its connection.
pub fn follow(connections: &mut Connections, packet: &Packet, input: &ConnectionInput) -> Followed {
    let Some(mut segment) = segment::of(packet, input) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    connections.is_low = segment.is_low;
    segment.hash = table::hash(&connections.table, &segment.key);
    let slot = table::find(&connections.table, &segment.key, segment.hash);
    let is_denied = slot != SLOT_NONE && lifetime::is_denied(connections, slot, input.generation);
    if is_denied && !opening::restarts(table::at(&mut connections.table, slot), &segment) {
        return denied(connections, slot, &segment);
    }
    let is_unsure =
        input.checksum == ConnectionChecksum::Unverified && is_noted(connections, slot, &segment);
    let bytes = packet.end - packet.l4_offset;
    if is_unsure && !checksum::is_right(packet, bytes) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Checksum);
    }
    let opens = segment.flags & (SYN | ACK) == SYN;
    // With Multipath TCP a server may read bytes that arrive over other connections.
    if segment.is_multipath || segment.flags & SYN != 0 && segment.flags & (FIN | RST | URG) != 0 {
        return lifetime::packet_unreadable(connections, ConnectionCause::Ambiguous);
    }
    match (slot, opens) {
        (_, true) => open(connections, slot, &segment),
        (SLOT_NONE, false) => lifetime::packet_unreadable(connections, ConnectionCause::Midstream),
        _ if segment.flags & SYN != 0 => opening::answer(connections, slot, &segment),
        _ => go_on(connections, slot, &segment),
    }
}
