// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists connections by their client's address, so that a client with many connections does not evict the connections
//! of other clients.
//!
//! Theory of operation: addresses are mapped to shares by a hash with a random key; all clients of a share count as one
//! client. The index of a share is called its place. An IPv6 client is a network with a prefix of 64 bits, in which a
//! host may have any number of addresses.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash;
use crate::connection::table;
use crate::connection::types::{ConnectionKey, Table, SLOT_NONE};

const IPV4: u64 = 4;

/// Returns the index of a client's share (its list of connections) in `shares`. Several clients may have the same
/// share.
/// - client_low: true if the client is the lower end (by address and port).
pub fn place(table: &Table, key: &ConnectionKey, client_low: bool) -> u32 {
    let &[first, second, _, fourth, _] = key;
    let address = match (first >> 8 & 0xff == IPV4, client_low) {
        (true, true) => second >> 32,
        (true, false) => second & 0xffff_ffff,
        (false, true) => second,
        (false, false) => fourth,
    };
    siphash::words(&table.key, &[address]) as u32 & table.mask
}

/// Returns the number of connections in a share (list of a client's connections).
/// - place: index of the share.
pub fn count(table: &Table, place: u32) -> u32 {
    let share = table.shares.get(place as usize);
    share.map_or(0, |share| share.count)
}

/// Returns the slot of the oldest connection in a share (list of a client's connections), or SLOT_NONE.
/// - place: index of the share.
pub fn oldest(table: &Table, place: u32) -> u32 {
    let share = table.shares.get(place as usize);
    share.map_or(SLOT_NONE, |share| share.oldest.wrapping_sub(1))
}

/// Adds a connection to its client's share.
/// - place: index of the share.
pub fn enter(table: &mut Table, slot: u32, place: u32) {
    let Some(share) = table.shares.get_mut(place as usize) else {
        return;
    };
    let before = share.newest.wrapping_sub(1);
    share.count += 1;
    share.newest = slot + 1;
    if before == SLOT_NONE {
        share.oldest = slot + 1;
    } else {
        table::at(table, before).share_newer = slot;
    }
    let connection = table::at(table, slot);
    connection.share = place;
    connection.share_older = before;
    connection.share_newer = SLOT_NONE;
}

/// Removes a connection from its client's share.
pub fn leave(table: &mut Table, slot: u32) {
    let connection = table::at(table, slot);
    let place = connection.share;
    let (older, newer) = (connection.share_older, connection.share_newer);
    if older != SLOT_NONE {
        table::at(table, older).share_newer = newer;
    }
    if newer != SLOT_NONE {
        table::at(table, newer).share_older = older;
    }
    let Some(share) = table.shares.get_mut(place as usize) else {
        return;
    };
    share.count -= 1;
    if older == SLOT_NONE {
        share.oldest = newer.wrapping_add(1);
    }
    if newer == SLOT_NONE {
        share.newest = older.wrapping_add(1);
    }
}
