// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections by their client's address, so that one client's many don't push another's few out of the table.
//!
//! Theory of operation: addresses are put into places by a hash with a key that is drawn once; those of a place count as one client. A client of IPv6
//! is its network of 64 bits, in which a host may have as many addresses as it likes.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash;
use crate::connection::table;
use crate::connection::types::{ConnectionKey, Table, SLOT_NONE};

const IPV4: u64 = 4;

/// The place of a client.
/// - client_low: the client is the lower one of both ends.
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

/// How many connections the clients of a place have.
pub fn count(table: &Table, place: u32) -> u32 {
    let share = table.shares.get(place as usize);
    share.map_or(0, |share| share.count)
}

/// The connection of a place that has been there for longest, or SLOT_NONE.
pub fn oldest(table: &Table, place: u32) -> u32 {
    let share = table.shares.get(place as usize);
    share.map_or(SLOT_NONE, |share| share.oldest.wrapping_sub(1))
}

/// Counts a connection as its client's.
/// - place: the client's.
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

/// Counts a connection as nobody's.
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
