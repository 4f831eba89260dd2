// SPDX-License-Identifier: GPL-2.0-or-later
//! The connection of a packet, and what its client has shown so far.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{
    ConnectionCache, ConnectionCounts, ConnectionInput, ConnectionSettings, Connections, Followed,
    FollowedKind, SLOT_NONE,
};
use crate::names::Names;
use crate::packet::Packet;

/// Makes room for connections; nothing allocates afterwards.
pub fn make(settings: &ConnectionSettings) -> Connections {
    Connections {
        settings: *settings,
        counts: ConnectionCounts::default(),
        alone: Names::default(),
    }
}

/// Takes a packet in, in the order in which its queue gives them. Those of both directions must come.
pub fn follow(connections: &mut Connections, packet: &Packet, input: &ConnectionInput) -> Followed {
    let _ = (connections, packet, input);
    Followed {
        kind: FollowedKind::None,
        slot: SLOT_NONE,
    }
}

/// The names of a packet that was just followed, and that is not denied; state None if it has none.
pub fn names<'a>(connections: &'a Connections, followed: &Followed) -> &'a Names {
    let _ = followed;
    &connections.alone
}

/// What is kept of a packet's connection for the policy; None if the packet stands alone.
pub fn cache<'a>(
    connections: &'a mut Connections,
    followed: &Followed,
) -> Option<&'a mut ConnectionCache> {
    let _ = (connections, followed);
    None
}

/// Notes that a policy refused a packet for the names of its connection: as long as it is the policy, all packets of the
/// connection are denied. Nothing is noted of a packet that stands alone.
pub fn deny(connections: &mut Connections, followed: &Followed, generation: u64) {
    let _ = (connections, followed, generation);
}

/// What was counted since `make`.
pub fn counts(connections: &Connections) -> &ConnectionCounts {
    &connections.counts
}
