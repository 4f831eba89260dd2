// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds QUIC connections by the connection id from which the keys of their clients' Initial packets are derived.
//!
//! Theory of operation: a server identifies a client by this id, not by address and port (RFC 9000, section 5.2). So
//! Initial packets with the same id from two addresses belong to one handshake, and each address shows only a part of
//! it. An id is found by a hash, like a connection by its ends. An id that was given up is recorded for as long as a
//! forgotten connection.
#![deny(clippy::indexing_slicing)]

use crate::connection::table;
use crate::connection::types::{Connection, ConnectionKey, Table, SLOT_NONE};
use crate::names::quic::CONNECTION_BYTES_MAX;

const WORD_BYTES: usize = 8;

/// Returns a connection id in the form of a connection's key, so that both can be hashed in the same way. The first
/// word is the id's length; in a key of addresses and ports this word is larger, because it contains the IP version.
fn key_of(id: &[u8]) -> ConnectionKey {
    let mut key = [0; 5];
    let [first, words @ ..] = &mut key;
    *first = id.len() as u64;
    for (word, bytes) in words.iter_mut().zip(id.chunks(WORD_BYTES)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    key
}

fn hash_of(table: &Table, id: &[u8]) -> u64 {
    table::hash(table, &key_of(id))
}

/// Returns the index of the bucket of a QUIC connection id.
fn bucket_of(table: &Table, id: &[u8]) -> u32 {
    table::bucket(table, hash_of(table, id))
}

/// Returns true if a connection has this QUIC connection id.
fn has(connection: &Connection, id: &[u8]) -> bool {
    connection.has_id && connection.id.get(..connection.id_bytes.into()) == Some(id)
}

/// Returns the slot of the connection with a QUIC connection id, or SLOT_NONE.
pub fn find(table: &Table, id: &[u8]) -> u32 {
    let bucket = bucket_of(table, id);
    let first = table.id_buckets.get(bucket as usize).copied().unwrap_or(0);
    let mut slot = first.wrapping_sub(1);
    while let Some(connection) = table.slots.get(slot as usize) {
        if has(connection, id) {
            return slot;
        }
        slot = connection.id_chained;
    }
    SLOT_NONE
}

/// Returns true if a QUIC connection id belongs to other connections but not to that in `slot`, or if it belongs to no
/// connection, and was given up or forgotten recently.
pub fn is_taken(table: &Table, id: &[u8], slot: u32, now_ns: u64) -> bool {
    let owner = find(table, id);
    if owner == SLOT_NONE {
        return table::is_buried(table, hash_of(table, id), now_ns);
    }
    let own = table.slots.get(slot as usize);
    // Ends whose earlier connection was forgotten may have the same id; they stay unreadable.
    owner != slot && !own.is_some_and(|connection| has(connection, id))
}

/// Assigns a QUIC connection id to a connection, and links the connection in the bucket of the id. The connection must
/// not have an id (see `remove`).
/// - id: at most CONNECTION_BYTES_MAX bytes.
pub fn add(table: &mut Table, slot: u32, id: &[u8]) {
    let bucket = bucket_of(table, id);
    let connection = table::at(table, slot);
    connection.id = [0; CONNECTION_BYTES_MAX];
    for (place, byte) in connection.id.iter_mut().zip(id) {
        *place = *byte;
    }
    connection.id_bytes = id.len() as u8;
    connection.has_id = true;
    let mut chained = 0;
    if let Some(first) = table.id_buckets.get_mut(bucket as usize) {
        chained = *first;
        *first = slot + 1;
    }
    table::at(table, slot).id_chained = chained.wrapping_sub(1);
}

/// Unlinks a connection's QUIC connection id from its bucket, if the connection has one. The bytes of the id remain
/// stored.
pub fn remove(table: &mut Table, slot: u32) {
    let connection = table::at(table, slot);
    if !connection.has_id {
        return;
    }
    connection.has_id = false;
    let (id, chained) = (connection.id, connection.id_chained);
    let id = id.get(..connection.id_bytes.into()).unwrap_or_default();
    let bucket = bucket_of(table, id);
    let first = table.id_buckets.get(bucket as usize).copied().unwrap_or(0);
    let mut before = first.wrapping_sub(1);
    if before == slot {
        if let Some(first) = table.id_buckets.get_mut(bucket as usize) {
            *first = chained.wrapping_add(1);
        }
        return;
    }
    while before != SLOT_NONE && table::at(table, before).id_chained != slot {
        before = table::at(table, before).id_chained;
    }
    table::at(table, before).id_chained = chained;
}

/// Returns the hash of a connection's QUIC connection id; None if the connection has no id.
pub fn hash(table: &mut Table, slot: u32) -> Option<u64> {
    let connection = table::at(table, slot);
    if !connection.has_id {
        return None;
    }
    let (id, bytes) = (connection.id, connection.id_bytes);
    Some(hash_of(table, id.get(..bytes.into()).unwrap_or_default()))
}

/// Records the QUIC connection id of a connection as recently given up, if the connection has one: its server may still
/// use the id.
pub fn bury(table: &mut Table, slot: u32, now_ns: u64) {
    if let Some(hash) = hash(table, slot) {
        table::bury(table, hash, now_ns);
    }
}
