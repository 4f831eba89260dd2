// SPDX-License-Identifier: GPL-2.0-or-later
//! Hash tables of exact values. Created once, then only read.
//!
//! Theory of operation: neither the author of a set's elements (a blocklist from elsewhere) nor the sender of packets
//! must be able to slow down searches. A slot is found by SipHash with a key that each table draws for itself, so
//! chosen values collide as rarely as random ones. In addition, a table with more than `PROBES_MAX` adjacent used slots
//! is discarded, and created again with another key and twice the slots.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash::{self, SiphashKey};

/// Maximum number of adjacent used slots; a search examines at most one slot more. If half of the slots are used,
/// random values need a longer run in one of 10^9 tables with 10,000 values, and in one of 10^6 tables with ten million
/// values (the probability of a run of n slots falls like n^-1.5 (e^-0.193)^n, Knuth's 6.4 with load 1/2).
pub const PROBES_MAX: usize = 128;

/// Value of an empty slot; never stored as a result.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub struct LookupSlot {
    /// The value itself (at most 32 bits), or the upper half of the hash of a key (`LookupHash`).
    pub tag: u32,
    /// Result, or index of the key's row; NONE = empty slot.
    pub value: u32,
}

const EMPTY: LookupSlot = LookupSlot {
    tag: 0,
    value: NONE,
};

/// Table of slots. A search starts at the slot given by the hash, and ends at the value or at the first empty slot.
#[derive(Clone, Debug, Default)]
pub struct LookupTable {
    key: SiphashKey,
    /// Number of slots - 1. The number is a power of 2, and at least twice the number of used slots.
    mask: u32,
    pub slots: Vec<LookupSlot>,
}

/// Hash table whose keys have a fixed number of words.
#[derive(Clone, Debug, Default)]
pub struct LookupHash {
    words: usize,
    count: usize,
    pub table: LookupTable,
    /// Rows (their number is count): each has the words of its key, then the result.
    rows: Vec<u64>,
}

/// Returns the base 2 logarithm of the number of slots. That number is the smallest power of 2 that is at least twice
/// the count, and at least 2.
fn slots_log2(count: usize) -> u32 {
    let mut log2 = 1;
    while (1_u64 << log2) < 2 * count as u64 {
        log2 += 1;
    }
    log2
}

/// Creates a table with empty slots and a random key.
fn make_slots(log2: u32) -> LookupTable {
    let count = 1_u64 << log2;
    LookupTable {
        key: siphash::draw(),
        mask: (count - 1) as u32,
        slots: vec![EMPTY; count as usize],
    }
}

/// Returns true if no run of used slots is longer than PROBES_MAX. The first slot follows the last.
fn is_bounded(table: &LookupTable) -> bool {
    let mut used = 0;
    // The slots are examined twice, so that a run from the end to the beginning is counted as one.
    for slot in table.slots.iter().chain(&table.slots) {
        used = if slot.value == NONE { 0 } else { used + 1 };
        if used > PROBES_MAX {
            return false;
        }
    }
    true
}

/// Returns the index of the slot with the value, or of the empty slot where it would be.
fn table_slot(table: &LookupTable, value: u32) -> Option<usize> {
    let mut slot = siphash::narrow(&table.key, value) as u32 & table.mask;
    loop {
        let row = table.slots.get(slot as usize)?;
        if row.value == NONE || row.tag == value {
            return Some(slot as usize);
        }
        slot = (slot + 1) & table.mask;
    }
}

/// Creates a hash table of values with at most 32 bits.
/// - entries: each value, as `tag`, with its result; all values differ.
pub fn table_make(entries: &[LookupSlot]) -> LookupTable {
    let mut log2 = slots_log2(entries.len());
    loop {
        let mut table = make_slots(log2);
        for &entry in entries {
            let slot = table_slot(&table, entry.tag);
            if let Some(slot) = slot.and_then(|slot| table.slots.get_mut(slot)) {
                *slot = entry;
            }
        }
        if is_bounded(&table) {
            return table;
        }
        log2 += 1;
    }
}

/// Returns the result for a value; None if the value is not in the table.
pub fn table_find(table: &LookupTable, value: u32) -> Option<u32> {
    let found = table.slots.get(table_slot(table, value)?)?.value;
    (found != NONE).then_some(found)
}

/// Returns the index of the slot with the key, or of the empty slot where it would be.
fn hash_slot(hash: &LookupHash, key: &[u64], hashed: u64) -> Option<usize> {
    let mut slot = hashed as u32 & hash.table.mask;
    loop {
        let row = hash.table.slots.get(slot as usize)?;
        if row.value == NONE {
            return Some(slot as usize);
        }
        let at = row.value as usize * (hash.words + 1);
        if row.tag == (hashed >> 32) as u32 && hash.rows.get(at..at + hash.words)? == key {
            return Some(slot as usize);
        }
        slot = (slot + 1) & hash.table.mask;
    }
}

fn fill(hash: &mut LookupHash) {
    for (value, row) in (0..).zip(hash.rows.chunks_exact(hash.words + 1)) {
        let Some((_, key)) = row.split_last() else {
            continue;
        };
        let hashed = siphash::words(&hash.table.key, key);
        let slot = hash_slot(hash, key, hashed).and_then(|slot| hash.table.slots.get_mut(slot));
        if let Some(slot) = slot.filter(|slot| slot.value == NONE) {
            let tag = (hashed >> 32) as u32;
            *slot = LookupSlot { tag, value };
        }
    }
}

/// Creates a hash table.
/// - rows: words + 1 numbers each, as in `LookupHash`. Of rows with equal keys, the first row applies.
pub fn hash_make(words: usize, rows: Vec<u64>) -> LookupHash {
    let count = rows.len() / (words + 1);
    let mut log2 = slots_log2(count);
    let mut hash = LookupHash {
        words,
        count,
        table: make_slots(log2),
        rows,
    };
    loop {
        fill(&mut hash);
        if is_bounded(&hash.table) {
            return hash;
        }
        log2 += 1;
        hash.table = make_slots(log2);
    }
}

/// Returns the result for a key with as many words as the table's keys; None if the key is not in the table.
pub fn hash_find(hash: &LookupHash, key: &[u64]) -> Option<u32> {
    if hash.count == 0 {
        return None;
    }
    let slot = hash_slot(hash, key, siphash::words(&hash.table.key, key))?;
    let entry = hash.table.slots.get(slot)?.value;
    if entry == NONE {
        return None;
    }
    let row = entry as usize * (hash.words + 1);
    hash.rows.get(row + hash.words).map(|&value| value as u32)
}
