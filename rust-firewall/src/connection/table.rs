// SPDX-License-Identifier: GPL-2.0-or-later
//! Table of connections by their key, with lists by time. Its size is fixed; it never allocates later.
//!
//! Theory of operation: senders must not control the time of a search. A bucket is found by SipHash with a random key,
//! and there are at least twice as many buckets as connections, so chains are as short as with random keys. Every list
//! has a single timeout and is thus ordered by time, so only its beginning is checked for expired connections.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash;
use crate::connection::types::{
    Connection, ConnectionKey, ConnectionList, Grave, List, Share, Table, END_WORDS, KEY_WORDS,
    LIST_COUNT, SLOT_NONE,
};
use crate::packet::{self, Packet};

/// Time in seconds for which a forgotten connection is recorded: its server may keep the client's bytes that long.
const GRAVE_SECONDS: u32 = 120;
const SECOND_NS: u64 = 1_000_000_000;

/// Makes an empty table of at most `connections` connections.
pub fn make(connections: u32) -> Table {
    let buckets = (u64::from(connections) * 2).next_power_of_two() as usize;
    Table {
        key: siphash::draw(),
        mask: (buckets - 1) as u32,
        buckets: vec![0; buckets],
        id_buckets: vec![0; buckets],
        graves: vec![Grave::default(); buckets],
        shares: vec![Share::default(); buckets],
        slots: Vec::with_capacity(connections as usize),
        limit: connections,
        free: SLOT_NONE,
        lists: [List {
            oldest: SLOT_NONE,
            newest: SLOT_NONE,
            count: 0,
        }; LIST_COUNT],
        spare: Connection::default(),
    }
}

/// Returns an address of 4 or 16 bytes in network byte order as a number.
fn number(address: &[u8]) -> u128 {
    if let Some(bytes) = address.first_chunk() {
        return u128::from_be_bytes(*bytes);
    }
    let bytes = address.first_chunk();
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes).into())
}

/// Returns the key of a packet with addresses and ports, and true if the packet's source is the lower end (by address
/// and port).
pub fn key(packet: &Packet) -> (ConnectionKey, bool) {
    let (source, destination) = packet::addresses(packet).unwrap_or_default();
    let source = (number(source), packet.source_port);
    let destination = (number(destination), packet.destination_port);
    let is_low = source <= destination;
    let ((low, low_port), (high, high_port)) = match is_low {
        true => (source, destination),
        false => (destination, source),
    };
    let ports = u64::from(low_port) << 48 | u64::from(high_port) << 32;
    let first = ports | u64::from(packet.version) << 8 | u64::from(packet.protocol);
    let key = match packet.version {
        4 => [first, (low << 32 | high) as u64, 0, 0, 0],
        _ => [
            first,
            (low >> 64) as u64,
            low as u64,
            (high >> 64) as u64,
            high as u64,
        ],
    };
    (key, is_low)
}

/// Returns an end (source or destination) of a packet with addresses and ports: port, IP version, protocol and address.
pub fn end(packet: &Packet, is_source: bool) -> [u64; END_WORDS] {
    let (source, destination) = packet::addresses(packet).unwrap_or_default();
    let (address, port) = match is_source {
        true => (number(source), packet.source_port),
        false => (number(destination), packet.destination_port),
    };
    let first = u64::from(port) << 32 | u64::from(packet.version) << 8;
    [
        first | u64::from(packet.protocol),
        (address >> 64) as u64,
        address as u64,
    ]
}

/// Returns the hash of a key. The functions below that have a parameter `hash` expect this hash.
pub fn hash(table: &Table, key: &ConnectionKey) -> u64 {
    match *key {
        [first, addresses, 0, 0, 0] => siphash::words(&table.key, &[first, addresses]),
        _ => siphash::words(&table.key, key),
    }
}

/// Returns the index of the bucket for a key's hash.
pub fn bucket(table: &Table, hash: u64) -> u32 {
    hash as u32 & table.mask
}

/// Returns the tag of a hash in `graves` (records of forgotten connections): its upper half.
pub fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns the connection in a slot; for SLOT_NONE, the unused connection `spare`.
pub fn at(table: &mut Table, slot: u32) -> &mut Connection {
    match table.slots.get_mut(slot as usize) {
        Some(connection) => connection,
        None => &mut table.spare,
    }
}

/// Returns the connection with a key, or SLOT_NONE.
pub fn find(table: &Table, key: &ConnectionKey, hash: u64) -> u32 {
    let bucket = bucket(table, hash);
    let first = table.buckets.get(bucket as usize).copied().unwrap_or(0);
    let mut slot = first.wrapping_sub(1);
    while let Some(connection) = table.slots.get(slot as usize) {
        if connection.key == *key {
            return slot;
        }
        slot = connection.chained;
    }
    SLOT_NONE
}

/// Touches the slots for `connections` connections of an empty table, so that filling these slots causes no page
/// faults.
pub fn warm(table: &mut Table, connections: u32) {
    let connections = connections.min(table.limit) as usize;
    table.slots.resize(connections, Connection::default());
    table.slots.clear();
}

/// Returns true if there is no room for another connection.
pub fn is_full(table: &Table) -> bool {
    table.free == SLOT_NONE && table.slots.len() >= table.limit as usize
}

/// Appends a connection to a list.
fn append(table: &mut Table, slot: u32, list: ConnectionList, now_ns: u64) {
    let Some(head) = table.lists.get_mut(list as usize) else {
        return;
    };
    let before = head.newest;
    head.newest = slot;
    head.count += 1;
    if before == SLOT_NONE {
        head.oldest = slot;
    } else {
        at(table, before).newer = slot;
    }
    let connection = at(table, slot);
    connection.list = list;
    connection.since_ns = now_ns;
    connection.older = before;
    connection.newer = SLOT_NONE;
}

/// Removes a connection from its list.
fn unlink(table: &mut Table, slot: u32) {
    let connection = at(table, slot);
    let (list, older, newer) = (connection.list, connection.older, connection.newer);
    if older != SLOT_NONE {
        at(table, older).newer = newer;
    }
    if newer != SLOT_NONE {
        at(table, newer).older = older;
    }
    let Some(head) = table.lists.get_mut(list as usize) else {
        return;
    };
    head.count -= 1;
    if older == SLOT_NONE {
        head.oldest = newer;
    }
    if newer == SLOT_NONE {
        head.newest = older;
    }
}

/// Adds a connection whose key is not in the table, and appends it to a list. Returns its slot, or SLOT_NONE if the
/// table is full.
pub fn add(
    table: &mut Table,
    key: &ConnectionKey,
    hash: u64,
    list: ConnectionList,
    now_ns: u64,
) -> u32 {
    let mut slot = table.free;
    if slot != SLOT_NONE {
        table.free = at(table, slot).chained;
    } else if table.slots.len() < table.limit as usize {
        slot = table.slots.len() as u32;
        table.slots.push(Connection::default());
    } else {
        return SLOT_NONE;
    }
    let bucket = bucket(table, hash);
    let mut chained = 0;
    if let Some(first) = table.buckets.get_mut(bucket as usize) {
        chained = *first;
        *first = slot + 1;
    }
    *at(table, slot) = Connection {
        key: *key,
        bucket,
        chained: chained.wrapping_sub(1),
        opened_ns: now_ns,
        ..Connection::default()
    };
    append(table, slot, list, now_ns);
    slot
}

/// Moves a connection to the end of a list, from the list that it is in.
pub fn move_to(table: &mut Table, slot: u32, list: ConnectionList, now_ns: u64) {
    unlink(table, slot);
    append(table, slot, list, now_ns);
}

/// Removes a connection from the table.
pub fn remove(table: &mut Table, slot: u32) {
    unlink(table, slot);
    let connection = at(table, slot);
    let (bucket, chained) = (connection.bucket, connection.chained);
    let first = table.buckets.get(bucket as usize).copied().unwrap_or(0);
    let mut before = first.wrapping_sub(1);
    if before == slot {
        if let Some(first) = table.buckets.get_mut(bucket as usize) {
            *first = chained.wrapping_add(1);
        }
    } else {
        while before != SLOT_NONE && at(table, before).chained != slot {
            before = at(table, before).chained;
        }
        at(table, before).chained = chained;
    }
    let free = table.free;
    at(table, slot).chained = free;
    at(table, slot).key = [0; KEY_WORDS];
    table.free = slot;
}

/// Returns a time in whole seconds, plus 1, because 0 means no record in `graves`.
fn second_of(now_ns: u64) -> u32 {
    (now_ns / SECOND_NS) as u32 + 1
}

fn is_fresh(grave: &Grave, second: u32) -> bool {
    grave.second != 0 && second.wrapping_sub(grave.second) < GRAVE_SECONDS
}

/// Records at an index of `graves` that a connection was forgotten.
fn dig(table: &mut Table, place: u32, tag: u32, second: u32) {
    if let Some(grave) = table.graves.get_mut(place as usize) {
        // If another forgotten connection has the same index, the tag becomes 0, which matches any connection.
        let is_shared = is_fresh(grave, second) && grave.tag != tag;
        *grave = Grave {
            tag: if is_shared { 0 } else { tag },
            second,
        };
    }
}

/// Records that the connection or QUIC connection id with this hash was forgotten. Its server may still have the
/// client's bytes.
pub fn bury(table: &mut Table, hash: u64, now_ns: u64) {
    let place = bucket(table, hash);
    dig(table, place, tag(hash), second_of(now_ns));
}

/// Returns the age in seconds of the record at an index of `graves` (forgotten connections); None if there is no
/// record, or it has expired.
pub fn grave_age(table: &Table, place: u32, now_ns: u64) -> Option<u32> {
    let grave = table.graves.get(place as usize)?;
    let second = second_of(now_ns);
    is_fresh(grave, second).then(|| second.wrapping_sub(grave.second))
}

/// Adds another table's record of a forgotten connection. The tables have the same hash key, but their sizes may
/// differ: the record is stored at each index that the connection may have in this table. Returns false if the record
/// is invalid.
/// - mask: mask of the other table.
/// - place: index of the record in the other table.
/// - age: as returned by `grave_age`.
pub fn bury_told(
    table: &mut Table,
    mask: u32,
    place: u32,
    tag: u32,
    age: u32,
    now_ns: u64,
) -> bool {
    if mask & mask.wrapping_add(1) != 0 || place > mask || age >= GRAVE_SECONDS {
        return false;
    }
    let second = second_of(now_ns).saturating_sub(age).max(1);
    let mut at = u64::from(place & table.mask);
    while at <= u64::from(table.mask) {
        dig(table, at as u32, tag, second);
        at += u64::from(mask) + 1;
    }
    true
}

/// Returns true if the connection or QUIC connection id with this hash may have been forgotten recently.
pub fn is_buried(table: &Table, hash: u64, now_ns: u64) -> bool {
    let grave = table.graves.get(bucket(table, hash) as usize);
    grave.is_some_and(|grave| {
        is_fresh(grave, second_of(now_ns)) && [0, tag(hash)].contains(&grave.tag)
    })
}
