// SPDX-License-Identifier: GPL-2.0-or-later
//! Host names: the parser of a name, and the table of all names in a policy.
//!
//! Theory of operation: a name is stored in the form in which DNS compares it: in lower case, as A-labels (RFC 5890),
//! without a final dot. `*.x` is stored as x with the flag `wildcard`. Neither the author of the names (a block list
//! from elsewhere) nor a client that asks for them must be able to slow down searches by names with the same hash.
//! Therefore the table is a hash table like that of `engine/lookup_hash`, with its own random key and a bound on the
//! slots that a search for one of its names examines.
//!
//! A table of a million names is larger than a processor's caches, so a search waits for each word of memory that it
//! reads. Therefore a search reads few words: a slot holds the position of the name's record, which holds all other
//! data. Most names of clients are not in the table. They are rejected by a Bloom filter, in which all bits of a name
//! are in the same word. The filter needs one to two bytes per name in the table; at most about one absent name in
//! thirty passes it and is searched in the slots.

use crate::base::pages::{self, Pages};
use crate::base::siphash::{self, SiphashKey};
use crate::names::HOST_BYTES;
use crate::policy::label::{self, LABEL_BYTES, LABEL_TOO_LONG, TOO_LONG};

/// Maximum number of slots that a search for a name of the table examines.
const PROBES_MAX: usize = 128;
/// Number of slots of the first table.
const SLOTS_MIN: usize = 256;
/// Number of slots per word of the Bloom filter.
const FILTER_SLOTS: usize = 16;
const WORD_BYTES: usize = 8;
/// Size of the part of a record after the name's bytes: two words.
const TAIL_BYTES: usize = 2 * WORD_BYTES;

/// Parsed host name: in lower case, as A-labels, without `*.` and without a final dot.
#[derive(Clone, Copy)]
pub struct Hostname {
    /// Length of the name in bytes.
    pub length: usize,
    /// True for `*.x`, which stands for all names below x, at any depth, but not for x.
    pub wildcard: bool,
    pub bytes: [u8; HOST_BYTES],
}

/// Table of names, numbered from 0 in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Hostnames {
    /// Records of the names, without gaps. A record holds the name's bytes, a word with the name's interval, and a word
    /// with the name's number (upper half) and form (lower half: twice its length, plus 1 for a wildcard).
    records: Pages,
    /// End of each name's record, as an offset in `records`.
    ends: Vec<u32>,
    key: SiphashKey,
    /// Number of slots: a power of 2, at least twice the number of names; 0 without names.
    slot_count: usize,
    /// Hash table of one-word slots, followed by the filter. Upper half of a slot: upper half of the name's hash. Lower
    /// half: end of the name's record. 0 = empty slot.
    table: Pages,
    /// Bit n is set if there is a wildcard `*.x` of which x has n labels (policy/forest).
    pub depths: u128,
}

/// Interval of a name in the forest (policy/forest): the name's own number there, and the largest number of the name
/// and the names below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostInterval {
    pub own: u32,
    pub last: u32,
}

/// Slot at which a search in the table has ended.
struct Probe {
    slot: usize,
    /// End of the name's record, as an offset in `records`; None if the slot is empty.
    place: Option<u32>,
    /// Number of slots that were examined before this slot.
    passed: usize,
}

/// Returns true if a byte is valid in host names.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns true if a text looks like an IPv6 address in brackets, which HTTP uses as a host.
fn is_bracketed(text: &[u8]) -> bool {
    let inner = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"));
    let is_of_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    inner.is_some_and(|inner| !inner.is_empty() && inner.iter().all(is_of_address))
}

/// Checks a name in ASCII, after removal of `*.` and of a final dot. Fails with the error text.
fn check(text: &[u8]) -> Result<(), &'static str> {
    if text.contains(&b'*') {
        return Err("a `*` is allowed only in front, followed by a dot: \"*.example.com\"");
    }
    if !is_bracketed(text) && !text.iter().copied().all(is_of_name) {
        return Err("not the name of a host: letters, digits, `-`, `_` and dots");
    }
    if text.len() > HOST_BYTES {
        return Err(TOO_LONG);
    }
    let mut labels = text.split(|byte| *byte == b'.');
    if labels.clone().any(<[u8]>::is_empty) {
        return Err("a host's name has no empty label");
    }
    match labels.any(|label| label.len() > LABEL_BYTES) {
        true => Err(LABEL_TOO_LONG),
        false => Ok(()),
    }
}

/// Checks an ASCII name without `*.`, and stores it in lower case, without its final dot. Fails with the error text.
fn store(text: &str, name: &mut Hostname) -> Result<(), &'static str> {
    let text = text.strip_suffix('.').unwrap_or(text).as_bytes();
    check(text)?;
    name.length = text.len();
    for (to, byte) in name.bytes.iter_mut().zip(text) {
        *to = byte.to_ascii_lowercase();
    }
    Ok(())
}

/// Parses a name in the policy's syntax. Fails with the cause, for the message of `Lexer::wrong`.
pub fn parse(text: &str) -> Result<Hostname, &'static str> {
    if text == "*" {
        return Err("this matches every name: test whether there is one, with `exists`");
    }
    let rest = text.strip_prefix("*.");
    let mut name = Hostname {
        length: 0,
        wildcard: rest.is_some(),
        bytes: [0; HOST_BYTES],
    };
    let rest = rest.unwrap_or(text);
    store(&label::to_ascii(rest)?, &mut name)?;
    Ok(name)
}

/// Returns the size of a table's slots and filter, in bytes.
fn table_bytes(slot_count: usize) -> usize {
    WORD_BYTES * (slot_count + slot_count / FILTER_SLOTS)
}

/// Returns the number of names in a table.
pub fn count(hostnames: &Hostnames) -> u32 {
    hostnames.ends.len() as u32
}

/// Returns the form of a name: twice its length, plus 1 for a wildcard.
fn form(length: usize, wildcard: bool) -> u32 {
    2 * length as u32 + u32::from(wildcard)
}

/// Returns the last word of the record that ends at the offset `place`.
fn last_word(hostnames: &Hostnames, place: u32) -> u64 {
    pages::word(
        &hostnames.records,
        (place as usize).saturating_sub(WORD_BYTES),
    )
}

/// Returns the number of the name whose record ends at the offset `place`.
pub fn id_at(hostnames: &Hostnames, place: u32) -> u32 {
    (last_word(hostnames, place) >> 32) as u32
}

/// Returns the interval in the forest of the name whose record ends at the offset `place`.
pub fn interval_at(hostnames: &Hostnames, place: u32) -> HostInterval {
    let word = pages::word(
        &hostnames.records,
        (place as usize).saturating_sub(TAIL_BYTES),
    );
    HostInterval {
        own: word as u32,
        last: (word >> 32) as u32,
    }
}

/// Returns the offset of the end of a name's record.
fn place_of(hostnames: &Hostnames, id: u32) -> u32 {
    hostnames.ends.get(id as usize).copied().unwrap_or_default()
}

/// Returns the interval of a name in the forest.
pub fn interval(hostnames: &Hostnames, id: u32) -> HostInterval {
    interval_at(hostnames, place_of(hostnames, id))
}

/// Sets the interval of a name in the forest.
pub fn set_interval(hostnames: &mut Hostnames, id: u32, interval: HostInterval) {
    let at = (place_of(hostnames, id) as usize).saturating_sub(TAIL_BYTES);
    let word = u64::from(interval.last) << 32 | u64::from(interval.own);
    pages::set_word(&mut hostnames.records, at, word);
}

/// Returns the bytes of a name, and true if the name is a wildcard.
pub fn get(hostnames: &Hostnames, id: u32) -> (&[u8], bool) {
    let place = place_of(hostnames, id);
    let form = last_word(hostnames, place) as u32;
    let length = (form / 2) as usize;
    let start = (place as usize).saturating_sub(TAIL_BYTES + length);
    let rest = hostnames.records.get(start..);
    let bytes = rest.and_then(|rest| rest.get(..length));
    (bytes.unwrap_or_default(), form % 2 == 1)
}

/// Returns a name in the policy's syntax, without quotes.
pub fn text(hostnames: &Hostnames, id: u32) -> String {
    let (bytes, wildcard) = get(hostnames, id);
    let front = if wildcard { "*." } else { "" };
    format!("{front}{}", String::from_utf8_lossy(bytes))
}

fn hash(hostnames: &Hostnames, name: &[u8], wildcard: bool) -> u64 {
    siphash::bytes(&hostnames.key, name, wildcard.into())
}

/// Returns true if the record that ends at the offset `place` is the record of this name.
fn is_name(hostnames: &Hostnames, place: u32, name: &[u8], wildcard: bool) -> bool {
    let start = (place as usize).saturating_sub(TAIL_BYTES + name.len());
    let bytes = hostnames.records.get(start..start + name.len());
    last_word(hostnames, place) as u32 == form(name.len(), wildcard) && bytes == Some(name)
}

/// Returns the byte offset in the table of the filter word for a hash.
fn filter_at(hostnames: &Hostnames, hashed: u64) -> usize {
    let word = hashed as usize & (hostnames.slot_count / FILTER_SLOTS - 1);
    WORD_BYTES * (hostnames.slot_count + word)
}

/// Returns the mask of a name in its word of the Bloom filter: the three bits that the name's hash selects. Some of the
/// three may be the same bit.
fn filter_bits(hashed: u64) -> u64 {
    1 << (hashed >> 32 & 63) | 1 << (hashed >> 38 & 63) | 1 << (hashed >> 44 & 63)
}

/// Searches a name in the slots. Returns the name's slot, or the first empty slot. There must be slots.
fn probe(hostnames: &Hostnames, name: &[u8], wildcard: bool, hashed: u64) -> Probe {
    let mask = hostnames.slot_count - 1;
    let mut slot = hashed as usize & mask;
    let mut passed = 0;
    loop {
        let word = pages::word(&hostnames.table, WORD_BYTES * slot);
        let place = word as u32;
        let has_tag = word >> 32 == hashed >> 32;
        if place == 0 || has_tag && is_name(hostnames, place, name, wildcard) {
            let place = (place > 0).then_some(place);
            return Probe {
                slot,
                place,
                passed,
            };
        }
        slot = (slot + 1) & mask;
        passed += 1;
    }
}

/// Searches a name. Returns the offset of the end of its record; None if the table lacks the name.
pub fn search(hostnames: &Hostnames, name: &[u8], wildcard: bool) -> Option<u32> {
    if hostnames.ends.is_empty() {
        return None;
    }
    let hashed = hash(hostnames, name, wildcard);
    let bits = filter_bits(hashed);
    if pages::word(&hostnames.table, filter_at(hostnames, hashed)) & bits != bits {
        return None;
    }
    probe(hostnames, name, wildcard, hashed).place
}

/// Returns the number of a name; None if the table lacks the name.
pub fn find(hostnames: &Hostnames, name: &[u8], wildcard: bool) -> Option<u32> {
    search(hostnames, name, wildcard).map(|place| id_at(hostnames, place))
}

/// Inserts a name into an empty slot and into the filter.
fn enter(hostnames: &mut Hostnames, slot: usize, hashed: u64, place: u32) {
    let word = hashed >> 32 << 32 | u64::from(place);
    pages::set_word(&mut hostnames.table, WORD_BYTES * slot, word);
    let at = filter_at(hostnames, hashed);
    let bits = pages::word(&hostnames.table, at) | filter_bits(hashed);
    pages::set_word(&mut hostnames.table, at, bits);
}

/// Inserts all names into empty slots. Returns false if a search would examine too many slots.
fn fill(hostnames: &mut Hostnames) -> bool {
    for id in 0..count(hostnames) {
        let (name, wildcard) = get(hostnames, id);
        let hashed = hash(hostnames, name, wildcard);
        let found = probe(hostnames, name, wildcard, hashed);
        if found.passed >= PROBES_MAX {
            return false;
        }
        enter(hostnames, found.slot, hashed, place_of(hostnames, id));
    }
    true
}

/// Replaces the table by a table with twice as many slots and a new key, with all names. Repeats this if a search would
/// examine too many slots.
fn grow(hostnames: &mut Hostnames) {
    loop {
        let slots = (2 * hostnames.slot_count).max(SLOTS_MIN);
        hostnames.key = siphash::draw();
        hostnames.slot_count = slots;
        hostnames.table = pages::make(table_bytes(slots));
        if fill(hostnames) {
            return;
        }
    }
}

/// Appends the record of a name. Returns the record's end, as an offset in `records`.
fn append(hostnames: &mut Hostnames, name: &[u8], wildcard: bool) -> u32 {
    let start = hostnames.ends.last().copied().unwrap_or_default() as usize;
    let last = start + name.len();
    let end = last + TAIL_BYTES;
    let word = u64::from(count(hostnames)) << 32 | u64::from(form(name.len(), wildcard));
    if end > hostnames.records.len() {
        let mut records = pages::make(2 * end);
        records[..start].copy_from_slice(&hostnames.records[..start]);
        hostnames.records = records;
    }
    hostnames.records[start..last].copy_from_slice(name);
    pages::set_word(&mut hostnames.records, last + WORD_BYTES, word);
    hostnames.ends.push(end as u32);
    end as u32
}

/// Adds a name if the table lacks it. Returns the name's number.
pub fn add(hostnames: &mut Hostnames, name: &[u8], wildcard: bool) -> u32 {
    if 2 * (hostnames.ends.len() + 1) > hostnames.slot_count {
        grow(hostnames);
    }
    loop {
        let hashed = hash(hostnames, name, wildcard);
        let found = probe(hostnames, name, wildcard, hashed);
        if let Some(place) = found.place {
            return id_at(hostnames, place);
        }
        if found.passed < PROBES_MAX {
            let id = count(hostnames);
            let place = append(hostnames, name, wildcard);
            enter(hostnames, found.slot, hashed, place);
            return id;
        }
        grow(hostnames);
    }
}
