// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections of QUIC by the connection id that their clients' Initial packets are opened with.
//!
//! Theory of operation: a server knows a client by this id, whatever address and port the client sends from (RFC 9000, section
//! 5.2). So Initial packets with one id from two places are one handshake, of which neither place shows us all. An id is
//! found by a hash, as a connection is by its ends; one that was given up is remembered as long as they are.
#![deny(clippy::indexing_slicing)]

use crate::connection::table;
use crate::connection::types::{ConnectionKey, Table, SLOT_NONE};
use crate::names::quic::CONNECTION_BYTES_MAX;

const WORD_BYTES: usize = 8;

/// An id as the key of a connection. That of a packet has the version of IP in its first word, above any length of an id.
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

/// The bucket of an id.
fn bucket_of(table: &Table, id: &[u8]) -> u32 {
    table::bucket(table, &key_of(id))
}

/// The connection of an id, or SLOT_NONE.
pub fn find(table: &Table, id: &[u8]) -> u32 {
    let bucket = bucket_of(table, id);
    let first = table.id_buckets.get(bucket as usize).copied().unwrap_or(0);
    let mut slot = first.wrapping_sub(1);
    while let Some(connection) = table.slots.get(slot as usize) {
        if connection.id.get(..connection.id_bytes.into()) == Some(id) {
            return slot;
        }
        slot = connection.id_chained;
    }
    SLOT_NONE
}

/// Whether an id is that of another connection than one, or of one that was given up lately.
pub fn is_taken(table: &Table, id: &[u8], slot: u32, now_ns: u64) -> bool {
    let owner = find(table, id);
    match owner {
        SLOT_NONE => table::is_buried(table, &key_of(id), now_ns),
        owner => owner != slot,
    }
}

/// Assigns a connection without an id one, of at most CONNECTION_BYTES_MAX bytes.
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

/// Unlinks a connection's id, if it has one. Its bytes remain.
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

/// Notes that a connection gives up its id, if it has one, though its server may remember it.
pub fn bury(table: &mut Table, slot: u32, now_ns: u64) {
    let connection = table::at(table, slot);
    if connection.has_id {
        let id = connection.id;
        let key = key_of(id.get(..connection.id_bytes.into()).unwrap_or_default());
        table::bury(table, &key, now_ns);
    }
}
