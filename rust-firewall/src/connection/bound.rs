// SPDX-License-Identifier: GPL-2.0-or-later
//! Limit of the bytes that pass on an undecided connection. Without it, a client that sends no name, or an incomplete
//! one, would get unlimited data.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{ConnectionCause, Connections, Followed, FollowedKind, SLOT_NONE};
use crate::connection::{lifetime, table};
use crate::names::NamesState;
use crate::packet::{Packet, TCP_HEADER_BYTES, UDP_HEADER_BYTES};

const TCP: u8 = libc::IPPROTO_TCP as u8;
/// Offset of the byte in a TCP header whose upper half is the header's length in words of 4 bytes.
const OFFSET: usize = 12;

/// Returns the length of a packet's data in bytes. If the length of the TCP header was not copied, the minimum is
/// assumed.
fn data_bytes(packet: &Packet) -> u32 {
    let header = match packet.protocol {
        TCP => {
            let offset = packet.bytes.get(packet.l4_offset as usize + OFFSET);
            offset.map_or(TCP_HEADER_BYTES, |offset| u32::from(offset >> 4) * 4)
        }
        _ => UDP_HEADER_BYTES,
    };
    packet
        .end
        .saturating_sub(packet.l4_offset)
        .saturating_sub(header)
}

/// Counts a packet's data bytes if the names of its connection are undecided. The names become unreadable if more than
/// `undecided_bytes` have passed in the packet's direction.
/// - followed: result for the packet so far.
/// - Returns the result for the packet.
pub fn pass(connections: &mut Connections, packet: &Packet, followed: Followed) -> Followed {
    let slot = followed.slot;
    if followed.kind != FollowedKind::Names || slot == SLOT_NONE {
        return followed;
    }
    let connection = table::at(&mut connections.table, slot);
    if connection.names.state != NamesState::Undecided {
        connection.client_passed = 0;
        connection.server_passed = 0;
        return followed;
    }
    let passed = match connections.is_low == connection.client_low {
        true => &mut connection.client_passed,
        false => &mut connection.server_passed,
    };
    *passed = passed.saturating_add(data_bytes(packet));
    if *passed <= connections.settings.undecided_bytes {
        return followed;
    }
    let now_ns = connections.now_ns;
    lifetime::make_unreadable(connections, slot, ConnectionCause::Bound, now_ns)
}
