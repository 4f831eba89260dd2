// SPDX-License-Identifier: GPL-2.0-or-later
//! The connection of a packet, and what its client has shown so far.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{
    ConnectionCache, ConnectionCause, ConnectionCounts, ConnectionInput, ConnectionQueries,
    ConnectionSettings, Connections, Followed, FollowedKind, SLOT_NONE,
};
use crate::connection::{
    bound, lifetime, opening, pool, queries, requests, segment, table, tcp, udp,
};
use crate::names::{hello, quic, Names, NamesProtocol};
use crate::packet::Packet;

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const HOPOPTS: u8 = libc::IPPROTO_HOPOPTS as u8;
const ROUTING: u8 = libc::IPPROTO_ROUTING as u8;
const FRAGMENT: u8 = libc::IPPROTO_FRAGMENT as u8;
const DSTOPTS: u8 = libc::IPPROTO_DSTOPTS as u8;

/// Makes room for connections; nothing allocates afterwards.
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

/// Whether a packet may be of TCP or UDP: where that isn't known, too.
fn has_names(packet: &Packet) -> bool {
    // The protocols after these are unknown in a later fragment.
    let is_hidden = packet.version == 6
        && packet.later_fragment
        && matches!(packet.protocol, HOPOPTS | ROUTING | FRAGMENT | DSTOPTS);
    matches!(packet.protocol, TCP | UDP) || packet.headers_beyond || is_hidden
}

/// Follows a packet, in the order of its queue. Those of both directions must come.
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
        return lifetime::odd(connections, ConnectionCause::Fragment);
    }
    if !packet.has_ports {
        return lifetime::odd(connections, ConnectionCause::Cut);
    }
    let followed = match packet.protocol {
        TCP => tcp::follow(connections, packet, input),
        _ => udp::follow(connections, packet, input),
    };
    bound::pass(connections, packet, followed)
}

/// Goes on with a packet that was just followed, of DNS over TCP or HTTP, and is accepted by its names so far: to those of the
/// next query or request that it is judged by. Returns whether there is one.
pub fn next(connections: &mut Connections) -> bool {
    let (slot, now_ns) = (connections.queries.slot, connections.now_ns);
    match table::at(&mut connections.table, slot).is_dns {
        true => queries::next(connections, now_ns),
        false => requests::next(connections, now_ns),
    }
}

/// The names of a packet that was just followed, of kind Names.
pub fn names<'a>(connections: &'a Connections, followed: &Followed) -> &'a Names {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.map_or(&connections.alone, |connection| &connection.names)
}

/// Policy data of a packet's connection; None if the packet belongs to none.
pub fn cache<'a>(
    connections: &'a mut Connections,
    followed: &Followed,
) -> Option<&'a mut ConnectionCache> {
    let connection = connections.table.slots.get_mut(followed.slot as usize);
    connection.map(|connection| &mut connection.cache)
}

/// Notes that a policy refused a packet for the names of its connection: as long as it is the policy, all packets of the
/// connection are denied. tells: its ends are to know, which those of TCP can. Nothing is noted of a packet that stands alone.
pub fn deny(connections: &mut Connections, followed: &Followed, generation: u64, tells: bool) {
    if followed.slot != SLOT_NONE {
        lifetime::deny(connections, followed.slot, generation, tells);
    }
}

/// Whether the ends of a packet's connection can be told that it is denied.
pub fn can_reset(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| !connection.is_udp)
}

/// Whether the ends of a denied packet's connection are told so.
pub fn is_reset(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| connection.is_reset)
}

/// The sequence number that the end expects next which a packet of TCP was sent to and did not get; None if that isn't known. A server has said
/// itself what it expects: what only its client claims may never have come to it. A client expects what its server sends.
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

/// Whether the names of a packet's connection can never change any more, and the server has acknowledged the bytes that decided them.
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

/// Whether the packet that was followed last comes from a server of QUIC that has the whole hello that decided: no packet of this end
/// changes names any more. One of the client may: a datagram that is several ones may hide the hello of another connection.
pub fn is_answer(connections: &Connections, followed: &Followed) -> bool {
    let connection = connections.table.slots.get(followed.slot as usize);
    connection.is_some_and(|connection| {
        connection.accepted && !connection.evasion && connections.is_low != connection.client_low
    })
}

/// How many are followed.
pub fn count(connections: &Connections) -> u32 {
    connections.table.lists.iter().map(|list| list.count).sum()
}

/// Counters since `make`.
pub fn counts(connections: &Connections) -> ConnectionCounts {
    let mut counts = connections.counts;
    for (now, list) in counts.now.iter_mut().zip(&connections.table.lists) {
        *now = list.count.into();
    }
    counts
}
