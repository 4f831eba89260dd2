// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the connection of a packet, and the names that the connection's client has sent so far.
//!
//! Theory of operation: while the policy reads names, each packet to decide passes through `follow` once, in the order
//! of the queue. The packets of both ends must come through the same queue. `table` finds the packet's connection by
//! its addresses, protocol and ports; a packet that may open a connection gets a slot of the table (`opening` for TCP,
//! `udp` for QUIC; DNS over UDP needs none). `tcp` and `udp` then extract the client's bytes and store them in
//! `stream`, which orders them by their position and detects different bytes for the same position. The parsers of
//! names/ read the stream up to its first gap. Their result is undecided while bytes are missing; once the names are
//! known, they hold for all later packets of the connection. On a TCP connection with several DNS queries or HTTP
//! requests (`queries`, `requests`) the names are those of the query or request that a packet completes or repeats.
//!
//! The memory is allocated at the start and bounded: slots in `table`, blocks of bytes in `pool`. `lifetime` moves a
//! connection from list to list (opening, silent, showing, settling, known, closing; datagrams for UDP), each with a
//! timeout. If the table is full, an old connection of a client with many connections is removed (`share` counts the
//! connections of each client). If the pool is full, the oldest connection with incomplete names is removed, or the
//! oldest one in the list settling is settled early. A TCP packet in the middle of an unknown connection has unreadable
//! names. The bytes of a TCP client are kept until the server has acknowledged them, because only the bytes that the
//! server accepted matter.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{
    ConnectionCache, ConnectionCause, ConnectionCounts, ConnectionInput, ConnectionQueries,
    ConnectionSettings, Connections, Followed, FollowedKind, SLOT_NONE,
};
use crate::connection::{
    bound, lifetime, opening, pool, queries, requests, segment, table, tcp, udp,
};
use crate::names::{hello, quic, Names, NamesProtocol, NamesState};
use crate::packet::{self, Packet};

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;

/// Allocates all memory for connections; nothing allocates afterwards.
pub fn make(settings: &ConnectionSettings) -> Connections {
    Connections {
        settings: *settings,
        counts: ConnectionCounts::default(),
        table: table::make(settings.connections),
        pool: pool::make(settings.hello_bytes),
        now_ns: 0,
        is_low: false,
        expire_ns: 0,
        opener: quic::make(),
        gathered: Box::new([0; hello::BYTES_MAX]),
        scratch: Box::new([0; hello::BYTES_MAX]),
        plain: vec![0; hello::BYTES_MAX],
        alone: Names::default(),
        queries: ConnectionQueries::default(),
    }
}

/// Returns true if a packet is TCP or UDP, or if its protocol is unknown.
fn has_names(packet: &Packet) -> bool {
    matches!(packet.protocol, TCP | UDP)
        || packet.headers_beyond
        || (packet.version == 6 && packet::is_extension(packet.protocol))
}

/// Updates the connection of a packet. Returns the connection's slot, and the packet's kind: None (neither TCP nor
/// UDP), Names (in any state, also undecided) or Denied. Must be called for the packets of both directions, in the
/// order of the queue.
pub fn follow(connections: &mut Connections, packet: &Packet, input: &ConnectionInput) -> Followed {
    connections.now_ns = input.now_ns;
    connections.queries.slot = SLOT_NONE;
    lifetime::expire(connections, input.now_ns);
    if !has_names(packet) {
        return Followed {
            kind: FollowedKind::None,
            slot: SLOT_NONE,
        };
    }
    if packet.fragment {
        return lifetime::packet_unreadable(connections, ConnectionCause::Fragment);
    }
    if !packet.has_ports {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    }
    let followed = match packet.protocol {
        TCP => tcp::follow(connections, packet, input),
        _ => udp::follow(connections, packet, input),
    };
    bound::pass(connections, packet, followed)
}

/// Moves to the next DNS query (over TCP) or HTTP request of those that decide the packet followed last. The policy
/// must have accepted the packet with the names of the previous query or request. Returns false if none is left.
pub fn next(connections: &mut Connections) -> bool {
    let (slot, now_ns) = (connections.queries.slot, connections.now_ns);
    match table::at(&mut connections.table, slot).is_dns {
        true => queries::next(connections, now_ns),
        false => requests::next(connections, now_ns),
    }
}

/// Returns the names of the packet followed last, if its kind is Names.
pub fn names<'a>(connections: &'a Connections, followed: &Followed) -> &'a Names {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.map_or(&connections.alone, |connection| &connection.names)
}

/// Returns the cache in which the engine stores its numbers for the names of a packet's connection; None if the slot is
/// SLOT_NONE.
pub fn cache<'a>(
    connections: &'a mut Connections,
    followed: &Followed,
) -> Option<&'a mut ConnectionCache> {
    let connection = connections.table.slots.get_mut(followed.slot as usize);
    connection.map(|connection| &mut connection.cache)
}

/// Records that a policy refused a packet for the names of its connection: while that policy is in use, the connection
/// is denied. A packet with the slot SLOT_NONE is ignored.
/// - tells: true if both ends of a TCP connection get a RST.
pub fn deny(connections: &mut Connections, followed: &Followed, generation: u64, tells: bool) {
    if followed.slot != SLOT_NONE {
        lifetime::deny(connections, followed.slot, generation, tells);
    }
}

/// Returns true if the slot of a packet is that of a TCP connection, whose ends can get a RST when it is denied.
pub fn can_reset(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| !connection.is_udp)
}

/// Returns true if both ends of a packet's denied connection get a RST.
pub fn is_reset(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| connection.is_reset)
}

/// Returns the sequence number that the receiver of a dropped TCP packet expects next; None if unknown. For the server
/// it is the number that the server itself has acknowledged, because it may never have received the client's latest
/// bytes. For the client it is the sequence number of the dropped packet.
pub fn expected(connections: &Connections, followed: &Followed, packet: &Packet) -> Option<u32> {
    let connection = connections.table.slots.get(followed.slot as usize)?;
    if !connection.confirmed {
        return None;
    }
    if table::key(packet).1 != connection.client_low {
        return segment::sequence(packet);
    }
    let stream = &connection.stream;
    Some(stream.base.wrapping_add(stream.acked))
}

/// Records that the kernel refused a TCP connection: the connection is denied as if a policy had refused it. Returns
/// the sequence number that the end in the RST's source address expects next; None if unknown. For the client it is the
/// number after the server's latest byte.
/// - packet: RST that the kernel sent to the other end.
pub fn refuse(connections: &mut Connections, packet: &Packet, generation: u64) -> Option<u32> {
    let (key, is_low) = table::key(packet);
    let hash = table::hash(&connections.table, &key);
    let slot = table::find(&connections.table, &key, hash);
    if slot == SLOT_NONE || table::at(&mut connections.table, slot).is_udp {
        return None;
    }
    lifetime::deny(connections, slot, generation, true);
    let connection = table::at(&mut connections.table, slot);
    let stream = &connection.stream;
    let expected = match is_low == connection.client_low {
        true => connection.server_end,
        false => stream.base.wrapping_add(stream.acked),
    };
    connection.confirmed.then_some(expected)
}

/// Returns true if the names of a packet's TCP connection are final, and the server has acknowledged the bytes that
/// they were read from. Always false for UDP, DNS and HTTP, and for a client whose bytes are an evasion.
pub fn is_settled(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| {
        let is_changing = matches!(
            connection.names.protocol,
            NamesProtocol::Dns | NamesProtocol::Http
        );
        !connection.is_udp
            && !connection.is_dns
            && !connection.evasion
            && !is_changing
            && opening::is_finished(connection)
    })
}

/// Returns true if the packet followed last comes from a QUIC server that has the complete ClientHello, which contains
/// the known names. Packets of this server no longer change the names. Packets of the client may change them: a packet
/// with several datagrams can hide the ClientHello of another connection. Returns false if the client's bytes are an
/// evasion.
pub fn is_answer(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| {
        connection.accepted && !connection.evasion && connections.is_low != connection.client_low
    })
}

/// Returns true if names may depend on the bytes of the packet followed last: it comes from a TCP client whose names
/// are not settled (see `is_settled`), or is a TCP packet with undecided names of its own (a further SYN, or a segment
/// without data of a denied connection), or goes to UDP port 53, or is a UDP packet whose data begins like a long
/// header of QUIC. Always false for fragments, for unreadable TCP packets, for TCP packets of unreadable connections,
/// and for denied packets.
pub fn decides(connections: &Connections, followed: &Followed, packet: &Packet) -> bool {
    if followed.kind != FollowedKind::Names || packet.fragment {
        return false;
    }
    if packet.protocol == UDP {
        return udp::decides(packet);
    }
    let Some(connection) = connections.table.slots.get(followed.slot as usize) else {
        return connections.alone.state == NamesState::Undecided;
    };
    connection.names.state != NamesState::Unreadable
        && connections.is_low == connection.client_low
        && !is_settled(connections, followed)
}

/// Returns the number of connections that are followed.
pub fn count(connections: &Connections) -> u32 {
    connections.table.lists.iter().map(|list| list.count).sum()
}

/// Returns the counters of connections since `make`, and the numbers of connections that are followed now.
pub fn counts(connections: &Connections) -> ConnectionCounts {
    let mut counts = connections.counts;
    for (now, list) in counts.now.iter_mut().zip(&connections.table.lists) {
        *now = list.count.into();
    }
    counts
}
