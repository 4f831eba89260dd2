// SPDX-License-Identifier: GPL-2.0-or-later
//! What a worker knows of the connections of its queue, for the worker that takes the queue over.
//!
//! Form, in little-endian numbers: the form's own (32 bits); the connections, as handover/record has them, by lists, in
//! each list from the oldest on; then how many there are, and how many were left out for want of room (32 bits each).
//! What a policy made of them is not told: the new one decides on each anew, as after a reload.

use nix::errno::Errno;

use crate::connection::types::{Connections, SLOT_NONE};
use crate::connection::{lifetime, table};
use crate::handover;
use crate::handover::memory::HandoverMemory;
use crate::handover::record::{self, ORDER};

/// Bytes of all that is told of connections, of all queues: as many as can be taken over while packets wait.
pub const BYTES_MAX: u64 = 128 << 20;

const FORM: u64 = 1;
const FORM_BYTES: usize = 4;
const COUNT_BYTES: usize = 4;
/// Of a connection, at most; it is less.
const RECORD_BYTES: usize = 20480;

/// How many connections were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsTaken {
    pub taken: u64,
    /// There was no room for them, here or in the memory.
    pub left_out: u64,
}

/// Writes all connections of a worker that has stopped.
/// - room: bytes that may be written.
pub fn write(
    memory: &mut HandoverMemory,
    connections: &mut Connections,
    room: u64,
    now_ns: u64,
) -> Result<(), Errno> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    let mut left = room;
    let (mut told, mut left_out) = (0, 0);
    record::put_number(&mut bytes, FORM, FORM_BYTES);
    handover::memory::put(memory, &bytes)?;
    for list in ORDER {
        let head = connections.table.lists.get(list as usize);
        let mut slot = head.map_or(SLOT_NONE, |head| head.oldest);
        while slot != SLOT_NONE {
            let connection = table::at(&mut connections.table, slot);
            bytes.clear();
            record::put(&mut bytes, connection, &mut connections.pool, now_ns);
            slot = connection.newer;
            if bytes.len() as u64 > left {
                left_out += 1;
                left = 0; // none is passed over for a smaller one
                continue;
            }
            left -= bytes.len() as u64;
            told += 1;
            handover::memory::put(memory, &bytes)?;
        }
    }
    bytes.clear();
    record::put_number(&mut bytes, told, COUNT_BYTES);
    record::put_number(&mut bytes, left_out, COUNT_BYTES);
    handover::memory::put(memory, &bytes)
}

/// Connections that made room for others.
fn evicted(connections: &Connections) -> u64 {
    connections.counts.evicted.iter().sum()
}

fn parse_all(
    bytes: &[u8],
    connections: &mut Connections,
    now_ns: u64,
) -> Result<ConnectionsTaken, &'static str> {
    let before = evicted(connections);
    let (records, counts) = bytes
        .len()
        .checked_sub(2 * COUNT_BYTES)
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or("length")?;
    let counts = &mut record::begin(counts);
    let told = record::number(counts, COUNT_BYTES);
    let left_out = record::number(counts, COUNT_BYTES);
    let reading = &mut record::begin(records);
    if record::number(reading, FORM_BYTES) != FORM {
        return Err("form");
    }
    let mut count = 0;
    while !reading.left.is_empty() {
        record::take(reading, connections, now_ns)?;
        count += 1;
    }
    if reading.cut || count != told {
        return Err("count");
    }
    let evicted = evicted(connections) - before;
    Ok(ConnectionsTaken {
        taken: count - evicted,
        left_out: left_out + evicted,
    })
}

/// Reads connections into a table that has none. What does not fit makes room as it would when packets came. Fails with
/// the name of the part that is not as it should be; then the table has none.
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
