// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfer of a worker's connections to the worker that takes its queue over.
//!
//! Format, in little-endian numbers: version of the format (32 bits); the connections (handover/record), list by list,
//! oldest first in each list; records of recently forgotten connections, each with place (index in the table's
//! `graves`), tag and age in seconds (32 each); the key of the hash from which place and tag are taken (16 bytes), and
//! the highest place; the numbers of connections, of connections left out because there was no room, and of records of
//! forgotten connections (32 each). A policy's verdicts on connections are not transferred: the new policy decides each
//! connection anew, as after a reload.

use nix::errno::Errno;

use crate::base::siphash::SiphashKey;
use crate::connection::types::{Connections, SLOT_NONE};
use crate::connection::{follow, lifetime, table};
use crate::handover;
use crate::handover::memory::HandoverMemory;
use crate::handover::record::{self, RecordReading, ORDER};

/// Maximum size of the connections of all queues, in bytes: it bounds the transfer's duration, while packets wait.
pub const BYTES_MAX: u64 = 128 << 20;

const FORM: u64 = 3;
const FORM_BYTES: usize = 4;
const NUMBER_BYTES: usize = 4;
const KEY_BYTES: usize = 16;
const KEY_WORDS: usize = 2;
/// Size of the numbers at the end of a worker's serialized connections, in bytes: the key of a hash and four numbers.
const END_BYTES: usize = KEY_BYTES + 4 * NUMBER_BYTES;
/// Size of the record of a forgotten connection.
const GRAVE_BYTES: u64 = 3 * NUMBER_BYTES as u64;
/// Maximum size of the records of a connection that is left out of the transfer and recorded as forgotten: one record
/// for its ends, and one for its QUIC connection id.
const LEFT_OUT_BYTES: u64 = 2 * GRAVE_BYTES;
/// Upper bound for the size of a serialized connection, in bytes.
const RECORD_BYTES: usize = 20480;

/// Numbers of connections that were transferred, and that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsTaken {
    pub taken: u64,
    /// Number of connections that were left out because the transfer's memory, the new table or its memory for streams
    /// had no room.
    pub left_out: u64,
}

/// Returns the number of records of forgotten connections (graves).
fn count_graves(connections: &Connections, now_ns: u64) -> u64 {
    let table = &connections.table;
    let ages = (0..=table.mask).filter_map(|place| table::grave_age(table, place, now_ns));
    ages.count() as u64
}

/// Writes a record of a forgotten connection (grave).
/// - place: index in the table's `graves`.
/// - count: in/out: number of records.
fn write_grave(
    memory: &mut HandoverMemory,
    place: u32,
    tag: u32,
    age: u32,
    count: &mut u32,
) -> Result<(), Errno> {
    *count += 1;
    for number in [place, tag, age] {
        handover::memory::append(memory, &number.to_le_bytes())?;
    }
    Ok(())
}

/// Writes the records of forgotten connections (graves).
/// - count: in/out: number of records.
fn write_graves(
    memory: &mut HandoverMemory,
    connections: &Connections,
    now_ns: u64,
    count: &mut u32,
) -> Result<(), Errno> {
    for (place, grave) in (0..).zip(&connections.table.graves) {
        if let Some(age) = table::grave_age(&connections.table, place, now_ns) {
            write_grave(memory, place, grave.tag, age, count)?;
        }
    }
    Ok(())
}

/// Writes the records of a connection that is left out, as of a forgotten connection, if its server may continue it.
/// The table stays unchanged, because this firewall continues if the upgrade fails.
/// - count: in/out: number of records.
fn write_left_out(
    memory: &mut HandoverMemory,
    connections: &mut Connections,
    slot: u32,
    count: &mut u32,
) -> Result<(), Errno> {
    let hashes = lifetime::removal_hashes(connections, slot);
    for hash in hashes.into_iter().flatten() {
        let place = table::bucket(&connections.table, hash);
        write_grave(memory, place, table::tag(hash), 0, count)?;
    }
    Ok(())
}

/// Writes the connections, list by list, then the records of forgotten connections: of the table, and of the
/// connections that are left out because there is no room.
/// - room: number of bytes that may be written, without the table's records of forgotten connections.
/// - counts: in/out: numbers of written connections, of connections that were left out, and of records of forgotten
///   connections.
fn write_records(
    memory: &mut HandoverMemory,
    connections: &mut Connections,
    room: u64,
    now_ns: u64,
    counts: &mut [u32; 3],
) -> Result<(), Errno> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    let mut left = room;
    let mut others = u64::from(follow::count(connections));
    let [told, left_out, graves] = counts;
    for list in ORDER {
        let head = connections.table.lists.get(list as usize);
        let mut slot = head.map_or(SLOT_NONE, |head| head.oldest);
        while slot != SLOT_NONE {
            let connection = table::at(&mut connections.table, slot);
            let this = slot;
            bytes.clear();
            record::append(&mut bytes, connection, &mut connections.pool, now_ns);
            slot = connection.newer;
            others -= 1;
            // After a connection is left out, smaller ones are not written in its place.
            if *left_out == 0 && bytes.len() as u64 + others * LEFT_OUT_BYTES <= left {
                left -= bytes.len() as u64;
                *told += 1;
                handover::memory::append(memory, &bytes)?;
                continue;
            }
            if *left_out == 0 {
                write_graves(memory, connections, now_ns, graves)?;
            }
            *left_out += 1;
            write_left_out(memory, connections, this, graves)?;
        }
    }
    if *left_out == 0 {
        write_graves(memory, connections, now_ns, graves)?;
    }
    Ok(())
}

/// Writes the connections of a stopped worker, as far as there is room, and the records of forgotten connections.
/// - room: number of bytes that may be written. The records of forgotten connections are written even if they take
///   more.
pub fn write(
    memory: &mut HandoverMemory,
    connections: &mut Connections,
    room: u64,
    now_ns: u64,
) -> Result<(), Errno> {
    let mut bytes = Vec::new();
    let mut counts = [0; 3];
    record::append_number(&mut bytes, FORM, FORM_BYTES);
    handover::memory::append(memory, &bytes)?;
    let buried = count_graves(connections, now_ns) * GRAVE_BYTES;
    let others = (FORM_BYTES + END_BYTES) as u64 + buried;
    let room = room.saturating_sub(others);
    write_records(memory, connections, room, now_ns, &mut counts)?;
    let [told, left_out, graves] = counts;
    let table = &connections.table;
    bytes.clear();
    for word in table.key.words {
        record::append_number(&mut bytes, word, KEY_BYTES / KEY_WORDS);
    }
    for number in [table.mask, told, left_out, graves] {
        record::append_number(&mut bytes, number.into(), NUMBER_BYTES);
    }
    handover::memory::append(memory, &bytes)
}

/// Returns the number of connections that were evicted so far, summed over all lists.
fn evicted(connections: &Connections) -> u64 {
    connections.counts.evicted.iter().sum()
}

/// Parses the records of forgotten connections (graves) and adds them to the table. Returns true if all records are
/// valid.
/// - mask: highest place in the old table.
fn parse_graves(
    reading: &mut RecordReading,
    connections: &mut Connections,
    mask: u32,
    count: u64,
    now_ns: u64,
) -> bool {
    let mut is_good = true;
    for _ in 0..count {
        let place = record::number(reading, NUMBER_BYTES) as u32;
        let tag = record::number(reading, NUMBER_BYTES) as u32;
        let age = record::number(reading, NUMBER_BYTES) as u32;
        let table = &mut connections.table;
        is_good = is_good && table::bury_told(table, mask, place, tag, age, now_ns);
    }
    is_good && !reading.cut
}

fn parse_all(
    bytes: &[u8],
    connections: &mut Connections,
    now_ns: u64,
) -> Result<ConnectionsTaken, &'static str> {
    let before = evicted(connections);
    let at = bytes.len().checked_sub(END_BYTES).ok_or("length")?;
    let (bytes, end) = bytes.split_at_checked(at).ok_or("length")?;
    let end = &mut record::begin(end);
    let words = [0; KEY_WORDS].map(|_| record::number(end, KEY_BYTES / KEY_WORDS));
    let mask = record::number(end, NUMBER_BYTES) as u32;
    let told = record::number(end, NUMBER_BYTES);
    let left_out = record::number(end, NUMBER_BYTES);
    let graves = record::number(end, NUMBER_BYTES);
    let reading = &mut record::begin(bytes);
    if record::number(reading, FORM_BYTES) != FORM {
        return Err("form");
    }
    connections.table.key = SiphashKey { words };
    for _ in 0..told {
        record::decode(reading, connections, now_ns)?;
    }
    if reading.left.len() as u64 != graves * GRAVE_BYTES {
        return Err("count");
    }
    if !parse_graves(reading, connections, mask, graves, now_ns) {
        return Err("graves");
    }
    let evicted = evicted(connections) - before;
    Ok(ConnectionsTaken {
        taken: told - evicted,
        left_out: left_out + evicted,
    })
}

/// Parses connections into an empty table. If there is no room, connections are evicted as for new packets. Fails with
/// the name of the invalid part; then the table is empty.
pub fn parse(
    bytes: &[u8],
    connections: &mut Connections,
    now_ns: u64,
) -> Result<ConnectionsTaken, &'static str> {
    let result = parse_all(bytes, connections, now_ns);
    if result.is_err() {
        lifetime::forget_all(connections);
    }
    result
}
