// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections of TCP (RFC 9293).
//!
//! Theory of operation: a client that means to deceive sends what its server does not take: another
//! SYN, bytes that never arrive, ends that are none. So nothing that a client says alone changes
//! where its stream begins: the server's SYN-ACK tells which SYN it took, and before that no byte is
//! read but those on the SYN. Bytes that were seen are compared with all that come later, until the
//! server has acknowledged them; from then on it takes no others. A packet that would complete a
//! name that we can't see is Unreadable itself, and is not counted as seen.
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    ConnectionCache, ConnectionCause, ConnectionChecksum, ConnectionInput, ConnectionKey,
    ConnectionList, Connections, Followed, FollowedKind, SLOT_NONE,
};
use crate::connection::{checksum, direction, lifetime, queries, stream, table};
use crate::names::{client, Names, NamesState};
use crate::packet::{Packet, TCP_HEADER_BYTES};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
/// Whose servers are asked by DNS.
const DNS_PORT: u16 = 53;

/// A segment.
struct Segment<'a> {
    key: ConnectionKey,
    /// It comes from the lower one of both ends.
    is_low: bool,
    source_port: u16,
    destination_port: u16,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    /// What was copied of its data.
    data: &'a [u8],
    /// Of its data.
    length: u32,
    input: ConnectionInput,
    now_ns: u64,
}

/// Reads a packet's header; None if it was not copied or is malformed.
fn segment_of<'a>(packet: &Packet<'a>, input: &ConnectionInput) -> Option<Segment<'a>> {
    let start = packet.l4_offset as usize;
    let header = packet.bytes.get(start..start + TCP_HEADER_BYTES as usize)?;
    let header: &[u8; TCP_HEADER_BYTES as usize] = header.try_into().ok()?;
    let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, ..] = *header;
    let header_bytes = u32::from(offset >> 4) * 4;
    let available = packet.end.saturating_sub(packet.l4_offset);
    if header_bytes < TCP_HEADER_BYTES || header_bytes > available {
        return None;
    }
    let length = available - header_bytes;
    let data = packet.bytes.get(start + header_bytes as usize..);
    let data = data.unwrap_or_default();
    let (key, is_low) = table::key(packet);
    Some(Segment {
        key,
        is_low,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        flags,
        sequence: u32::from_be_bytes([s0, s1, s2, s3]),
        acknowledged: u32::from_be_bytes([a0, a1, a2, a3]),
        data: data.get(..length as usize).unwrap_or(data),
        length,
        input: *input,
        now_ns: input.now_ns,
    })
}

/// Whether the server has all of what was decided on.
fn is_finished(connections: &mut Connections, slot: u32) -> bool {
    let connection = table::at(&mut connections.table, slot);
    let stream = &connection.stream;
    connection.names.state == NamesState::Known && stream.acked >= stream.decided
}

/// Compares what comes again, or comes late, with what was decided on.
fn take_known(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
    offset: u32,
    data: &[u8],
    length: u32,
) -> Followed {
    let stream = &table::at(&mut connections.table, slot).stream;
    let needed = length.min(stream.decided.saturating_sub(offset));
    if needed == 0 || stream.acked >= stream.decided {
        return lifetime::named(connections, slot);
    }
    if stream.let_go {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    let Some(data) = data.get(..needed as usize) else {
        return lifetime::odd(connections, ConnectionCause::Cut);
    };
    match lifetime::keep(connections, slot, offset, data, segment.now_ns) {
        StreamPut::Kept => lifetime::named(connections, slot),
        put => lifetime::refuse(connections, slot, put, segment.now_ns),
    }
}

/// Reads what is there of a stream without a gap.
/// - data: of the segment that came last, from its offset on.
fn read(connections: &mut Connections, slot: u32, offset: u32, data: &[u8]) -> NamesState {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let (gathered, scratch) = (&mut connections.gathered, &mut connections.scratch);
    let whole = end >= BYTES_MAX;
    let names = &mut connection.names;
    if offset == 0 && data.len() as u32 == end {
        return client::read(data, whole, scratch, names);
    }
    stream::gather(
        &connection.stream,
        &mut connections.pool,
        0,
        end,
        &mut gathered[..],
    );
    let bytes = gathered.get(..end as usize).unwrap_or_default();
    client::read(bytes, whole, scratch, names)
}

/// Takes in what a client sends that has not shown its names.
fn take_undecided(
    connections: &mut Connections,
    slot: u32,
    segment: &Segment,
    offset: u32,
    data: &[u8],
    length: u32,
) -> Followed {
    let needed = length.min(BYTES_MAX.saturating_sub(offset));
    if needed == 0 {
        return lifetime::odd(connections, ConnectionCause::Gaps);
    }
    let Some(data) = data.get(..needed as usize) else {
        return lifetime::odd(connections, ConnectionCause::Cut);
    };
    let connection = table::at(&mut connections.table, slot);
    let before = stream::prefix(&connection.stream);
    lifetime::show(connections, slot, segment.now_ns);
    let put = lifetime::keep(connections, slot, offset, data, segment.now_ns);
    if put != StreamPut::Kept {
        return lifetime::refuse(connections, slot, put, segment.now_ns);
    }
    let after = stream::prefix(&table::at(&mut connections.table, slot).stream);
    let state = match after > before {
        true => read(connections, slot, offset, data),
        false => NamesState::Undecided,
    };
    match state {
        NamesState::Known => lifetime::decide(connections, slot, after, segment.now_ns),
        NamesState::Undecided if needed < length => {
            return lifetime::odd(connections, ConnectionCause::Gaps);
        }
        NamesState::Undecided => {}
        _ => {
            table::at(&mut connections.table, slot).names.state = NamesState::Undecided;
            let cause = ConnectionCause::Parse;
            return lifetime::unreadable(connections, slot, cause, segment.now_ns);
        }
    }
    lifetime::named(connections, slot)
}

/// Takes in a client's data. What lies before the stream's first byte is no part of it.
fn take(connections: &mut Connections, slot: u32, segment: &Segment, sequence: u32) -> Followed {
    let is_dns = table::at(&mut connections.table, slot).is_dns;
    if is_dns {
        queries::rebase(connections, slot, segment.now_ns);
    }
    let connection = table::at(&mut connections.table, slot);
    let distance = sequence.wrapping_sub(connection.stream.base) as i32;
    let skipped = distance.min(0).unsigned_abs().min(segment.length);
    let length = segment.length - skipped;
    let data = segment.data.get(skipped as usize..).unwrap_or_default();
    let offset = distance.max(0) as u32;
    match connection.names.state {
        NamesState::Unreadable => lifetime::named(connections, slot),
        _ if length == 0 => lifetime::named(connections, slot),
        _ if is_dns => queries::take(connections, slot, offset, data, length, segment.now_ns),
        NamesState::Known => take_known(connections, slot, segment, offset, data, length),
        _ => take_undecided(connections, slot, segment, offset, data, length),
    }
}

/// A SYN of a connection that is not followed.
fn begin(connections: &mut Connections, segment: &Segment) -> Followed {
    let list = ConnectionList::Opening;
    let slot = lifetime::open(connections, &segment.key, list, segment.now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.client_low = segment.is_low;
    connection.is_dns = segment.destination_port == DNS_PORT;
    connection.begun = segment.sequence.wrapping_add(1);
    connection.stream.base = connection.begun;
    direction::bind(connection, &segment.input);
    take(connections, slot, segment, segment.sequence.wrapping_add(1))
}

/// A SYN of a connection that is followed: its first one again, or that of another connection, which
/// is none before the server has answered it.
fn begin_again(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let base = segment.sequence.wrapping_add(1);
    let connection = table::at(&mut connections.table, slot);
    let is_first = segment.is_low == connection.client_low && base == connection.begun;
    if is_first && !direction::is_foreign(connection, segment.is_low, &segment.input) {
        return take(connections, slot, segment, base);
    }
    direction::bind_pending(connection, &segment.input);
    connection.pending = true;
    connection.pending_low = segment.is_low;
    connection.pending_base = base;
    match segment.length {
        0 => lifetime::fresh(connections),
        _ => lifetime::odd(connections, ConnectionCause::Ambiguous),
    }
}

/// A connection takes the place of another one between the same ends, since its SYN was answered.
fn replace(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    stream::release(&mut connection.stream, &mut connections.pool);
    connection.opened_ns = segment.now_ns;
    connection.begun = connection.pending_base;
    connection.stream = stream::make(connection.begun);
    connection.is_dns = segment.source_port == DNS_PORT;
    connection.client_low = connection.pending_low;
    direction::take_pending(connection, &segment.input);
    connection.pending = false;
    connection.confirmed = true;
    connection.closed = false;
    connection.cache = ConnectionCache::default();
    connection.names = Names {
        state: NamesState::Undecided,
        ..Names::default()
    };
    connections.counts.opened += 1;
    let list = ConnectionList::Opening;
    table::move_to(&mut connections.table, slot, list, segment.now_ns);
    lifetime::named(connections, slot)
}

/// A server's answer to a SYN. One that answers another SYN than ours while it may still have our
/// connection makes it unknown which of both it has.
fn answer(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let is_finished = is_finished(connections, slot);
    let connection = table::at(&mut connections.table, slot);
    let is_pending = connection.pending
        && segment.is_low != connection.pending_low
        && segment.acknowledged == connection.pending_base
        && direction::answers_pending(connection, &segment.input);
    if is_pending && (is_finished || !connection.confirmed) {
        return replace(connections, slot, segment);
    }
    if segment.is_low == connection.client_low && !is_pending {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    if !is_pending && direction::is_foreign(connection, segment.is_low, &segment.input) {
        return lifetime::odd(connections, ConnectionCause::Interface);
    }
    let distance = segment.acknowledged.wrapping_sub(connection.begun);
    let is_ours = distance == 0 || distance <= stream::prefix(&connection.stream);
    if !is_pending && is_ours {
        connection.confirmed = true;
        direction::bind_server(connection, &segment.input);
        return lifetime::named(connections, slot);
    }
    if is_finished {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    let cause = ConnectionCause::Ambiguous;
    lifetime::unreadable(connections, slot, cause, segment.now_ns)
}

/// What a server has of its client's bytes.
fn acknowledge(connections: &mut Connections, slot: u32, segment: &Segment) {
    let connection = table::at(&mut connections.table, slot);
    let stream = &mut connection.stream;
    let distance = segment.acknowledged.wrapping_sub(stream.base);
    let is_ahead = distance > stream.acked && distance <= i32::MAX as u32;
    if segment.flags & ACK == 0 || !connection.confirmed || !is_ahead {
        return;
    }
    stream.acked = distance;
    let is_over = stream.acked >= stream.decided && connection.list == ConnectionList::Settling;
    if is_over && !(connection.is_dns && stream::has_more(stream)) {
        lifetime::settle(connections, slot, segment.now_ns);
    }
}

/// A segment of a connection that is not refused.
fn go_on(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if direction::is_foreign(connection, segment.is_low, &segment.input) {
        return lifetime::odd(connections, ConnectionCause::Interface);
    }
    lifetime::touch(connections, slot, segment.now_ns);
    if segment.flags & (FIN | RST) != 0 {
        lifetime::close(connections, slot, segment.now_ns);
    }
    let is_finished = is_finished(connections, slot);
    let connection = table::at(&mut connections.table, slot);
    if segment.is_low != connection.client_low {
        acknowledge(connections, slot, segment);
        return lifetime::named(connections, slot);
    }
    // The receiver takes a byte out of the stream (RFC 6093), and which one isn't certain.
    if segment.flags & URG != 0 && (!is_finished || connection.is_dns) {
        let cause = ConnectionCause::Ambiguous;
        return lifetime::unreadable(connections, slot, cause, segment.now_ns);
    }
    if segment.length == 0 {
        return lifetime::named(connections, slot);
    }
    if !connection.confirmed {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    take(connections, slot, segment, segment.sequence)
}

/// Whether a segment says anything that is noted, so that it must be one that its receiver takes.
fn is_noted(connections: &mut Connections, slot: u32, segment: &Segment) -> bool {
    let connection = table::at(&mut connections.table, slot);
    let is_known = connection.list == ConnectionList::Known && !connection.is_dns;
    segment.flags & (SYN | FIN | RST | URG) != 0 || !is_known
}

/// The sequence number of a packet of TCP; None if its header was not copied or is malformed.
pub fn sequence(packet: &Packet) -> Option<u32> {
    let segment = segment_of(packet, &ConnectionInput::default());
    segment.map(|segment| segment.sequence)
}

/// A segment of a connection that is denied. The RST by which its ends are told come by here, too, where they are queued.
fn denied(connections: &mut Connections, slot: u32, segment: &Segment) -> Followed {
    lifetime::touch(connections, slot, segment.now_ns);
    let is_reset = table::at(&mut connections.table, slot).is_reset;
    if is_reset && segment.flags & RST != 0 && segment.length == 0 {
        return lifetime::fresh(connections);
    }
    let kind = FollowedKind::Denied;
    Followed { kind, slot }
}

/// Takes in a packet of TCP.
pub fn follow(connections: &mut Connections, packet: &Packet, input: &ConnectionInput) -> Followed {
    let Some(segment) = segment_of(packet, input) else {
        return lifetime::odd(connections, ConnectionCause::Cut);
    };
    let slot = table::find(&connections.table, &segment.key);
    if slot != SLOT_NONE && lifetime::is_denied(connections, slot, input.generation) {
        return denied(connections, slot, &segment);
    }
    let is_unsure =
        input.checksum == ConnectionChecksum::Unverified && is_noted(connections, slot, &segment);
    let bytes = packet.end - packet.l4_offset;
    if is_unsure && !checksum::is_right(packet, bytes) {
        return lifetime::odd(connections, ConnectionCause::Checksum);
    }
    let opens = segment.flags & (SYN | ACK) == SYN;
    if segment.flags & SYN != 0 && segment.flags & (FIN | RST | URG) != 0 {
        return lifetime::odd(connections, ConnectionCause::Ambiguous);
    }
    match (slot, opens) {
        (SLOT_NONE, true) => begin(connections, &segment),
        (SLOT_NONE, false) => lifetime::odd(connections, ConnectionCause::Midstream),
        (_, true) => begin_again(connections, slot, &segment),
        _ if segment.flags & SYN != 0 => answer(connections, slot, &segment),
        _ => go_on(connections, slot, &segment),
    }
}
