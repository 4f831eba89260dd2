// SPDX-License-Identifier: GPL-2.0-or-later
//! From a value to what was stored for it: hash tables for exact values, sorted intervals for
//! ranges. Made once, then only read.
#![deny(clippy::indexing_slicing)]

/// Values of up to so many bits are narrow, others wide.
pub const NARROW_BITS: u32 = 32;
/// Of intervals.
pub const BUCKETS_MAX: usize = 1 << 17;

/// In a slot: it is empty. Never stored as a value.
const NONE: u32 = u32::MAX;
/// 2^32 / golden ratio, odd.
const MULTIPLIER_32: u32 = 0x9e37_79b1;
/// 2^64 / golden ratio, odd.
const MULTIPLIER_64: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is to be found under all values from low to high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupRange {
    /// At most high.
    pub low: u128,
    pub high: u128,
    pub value: u32,
}

/// A row of a table of narrow values.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u32,
    /// NONE = empty.
    value: u32,
}

/// Intervals do not overlap and ascend.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: u32,
    high: u32,
    value: u32,
}

#[derive(Clone, Copy, Debug)]
struct WideInterval {
    low: u128,
    high: u128,
    value: u32,
}

/// Where to search: of the values with the same (value - base) >> shift, the intervals that begin
/// there are starts[n] to starts[n + 1].
#[derive(Clone, Debug)]
struct Buckets {
    /// The lowest value of all.
    base: u128,
    shift: u32,
    /// One more than there are buckets.
    starts: Vec<u32>,
}

/// A row of a table of several words: where its key lies.
#[derive(Clone, Copy, Debug)]
struct HashSlot {
    /// Upper half of the key's hash.
    tag: u32,
    /// NONE = empty.
    entry: u32,
}

/// A hash table of keys of so many words each.
#[derive(Clone, Debug, Default)]
pub struct LookupHash {
    words: usize,
    count: usize,
    /// Slots - 1; they are a power of 2 and at least twice the count.
    mask: u32,
    slots: Vec<HashSlot>,
    /// count of them: the words of the key, then the value.
    rows: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Empty,
    /// Narrow, every range is one value. Slots are a power of 2 and at least twice as many as
    /// values; shift is 32 - log2(slots).
    Exact { shift: u32, slots: Vec<Slot> },
    /// Narrow.
    Intervals {
        buckets: Buckets,
        intervals: Vec<Interval>,
    },
    /// Wide, every range is one value.
    WideExact(LookupHash),
    /// Wide.
    WideIntervals {
        buckets: Buckets,
        intervals: Vec<WideInterval>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Lookup {
    kind: Kind,
}

/// Sorts ranges, so that none overlaps: where two do, the one that begins first (of those, the one
/// of the lower value) keeps what they share. Cuts off what is not left.
pub fn part(ranges: &mut Vec<LookupRange>) {
    ranges.sort_unstable_by_key(|range| (range.low, range.value));
    let mut last: Option<u128> = None;
    ranges.retain_mut(|range| {
        if let Some(last) = last.filter(|&last| range.low <= last) {
            if range.high <= last {
                return false;
            }
            range.low = last + 1;
        }
        last = Some(range.high);
        true
    });
}

fn all_exact(ranges: &[LookupRange]) -> bool {
    ranges.iter().all(|range| range.low == range.high)
}

/// The base 2 logarithm of the smallest power of 2 that is at least twice the count, and at least 2.
fn slots_log2(count: usize) -> u32 {
    let mut log2 = 1;
    while (1_u64 << log2) < 2 * count as u64 {
        log2 += 1;
    }
    log2
}

fn exact_slot(shift: u32, key: u32) -> u32 {
    key.wrapping_mul(MULTIPLIER_32) >> shift
}

fn make_exact(ranges: &[LookupRange]) -> Kind {
    let log2 = slots_log2(ranges.len());
    let shift = 32 - log2;
    let mask = (1_u32 << log2) - 1;
    let empty = Slot {
        key: 0,
        value: NONE,
    };
    let mut slots = vec![empty; mask as usize + 1];
    for range in ranges {
        let key = range.low as u32;
        let mut slot = exact_slot(shift, key);
        while let Some(row) = slots.get_mut(slot as usize) {
            if row.value == NONE {
                let value = range.value;
                *row = Slot { key, value };
                break;
            }
            slot = (slot + 1) & mask;
        }
    }
    Kind::Exact { shift, slots }
}

/// Makes about as many buckets as there are ranges.
fn make_buckets(ranges: &[LookupRange]) -> Buckets {
    let base = ranges.first().map_or(0, |range| range.low);
    let span = ranges.last().map_or(0, |range| range.low) - base;
    let mut most = 1;
    while most < ranges.len() && most < BUCKETS_MAX {
        most *= 2;
    }
    let mut shift = 0;
    while (span >> shift) >= most as u128 {
        shift += 1;
    }
    let count = (span >> shift) + 1;
    let mut rest = ranges.iter().peekable();
    let mut at = 0;
    let starts = (0..=count).map(|bucket| {
        while rest
            .next_if(|range| (range.low - base) >> shift < bucket)
            .is_some()
        {
            at += 1;
        }
        at
    });
    Buckets {
        base,
        shift,
        starts: starts.collect(),
    }
}

fn make_intervals(ranges: &[LookupRange]) -> Kind {
    let intervals = ranges.iter().map(|range| Interval {
        low: range.low as u32,
        high: range.high as u32,
        value: range.value,
    });
    Kind::Intervals {
        buckets: make_buckets(ranges),
        intervals: intervals.collect(),
    }
}

fn make_wide_intervals(ranges: &[LookupRange]) -> Kind {
    let intervals = ranges.iter().map(|range| WideInterval {
        low: range.low,
        high: range.high,
        value: range.value,
    });
    Kind::WideIntervals {
        buckets: make_buckets(ranges),
        intervals: intervals.collect(),
    }
}

fn make_wide_exact(ranges: &[LookupRange]) -> Kind {
    let rows = ranges.iter().flat_map(|range| {
        [
            (range.low >> 64) as u64,
            range.low as u64,
            range.value.into(),
        ]
    });
    Kind::WideExact(hash_make(2, rows.collect()))
}

/// Makes a lookup of values of so many bits.
/// - ranges: parted as `part` does; what is not left is cut off.
pub fn make(bits: u32, ranges: &mut Vec<LookupRange>) -> Lookup {
    let narrow = bits <= NARROW_BITS;
    part(ranges);
    let kind = match (narrow, all_exact(ranges)) {
        _ if ranges.is_empty() => Kind::Empty,
        (true, true) => make_exact(ranges),
        (false, true) => make_wide_exact(ranges),
        (true, false) => make_intervals(ranges),
        (false, false) => make_wide_intervals(ranges),
    };
    Lookup { kind }
}

fn find_exact(shift: u32, slots: &[Slot], value: u32) -> Option<u32> {
    let mask = u32::MAX >> shift;
    let mut slot = exact_slot(shift, value);
    // Ends at an empty slot at the latest: half of them are.
    loop {
        let row = slots.get(slot as usize)?;
        if row.value == NONE {
            return None;
        }
        if row.key == value {
            return Some(row.value);
        }
        slot = (slot + 1) & mask;
    }
}

fn find_interval(buckets: &Buckets, intervals: &[Interval], value: u32) -> Option<u32> {
    let offset = u64::from(value.checked_sub(buckets.base as u32)?);
    let last = buckets.starts.len().checked_sub(2)?;
    let bucket = ((offset >> buckets.shift) as usize).min(last);
    let mut from = *buckets.starts.get(bucket)?;
    let mut to = *buckets.starts.get(bucket + 1)?;
    // The first that begins behind the value; the one before it is the only one that can hold.
    while from < to {
        let middle = from + (to - from) / 2;
        if intervals.get(middle as usize)?.low <= value {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    // Not 0: the first begins at the base.
    let interval = intervals.get(from.checked_sub(1)? as usize)?;
    (value <= interval.high).then_some(interval.value)
}

/// What is stored for a value. The lookup must be of narrow values.
pub fn find(lookup: &Lookup, value: u32) -> Option<u32> {
    match &lookup.kind {
        Kind::Exact { shift, slots } => find_exact(*shift, slots, value),
        Kind::Intervals { buckets, intervals } => find_interval(buckets, intervals, value),
        _ => None,
    }
}

fn find_wide_interval(buckets: &Buckets, intervals: &[WideInterval], value: u128) -> Option<u32> {
    let offset = value.checked_sub(buckets.base)?;
    let last = buckets.starts.len().checked_sub(2)?;
    let bucket = (offset >> buckets.shift).min(last as u128) as usize;
    let mut from = *buckets.starts.get(bucket)?;
    let mut to = *buckets.starts.get(bucket + 1)?;
    while from < to {
        let middle = from + (to - from) / 2;
        if intervals.get(middle as usize)?.low <= value {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    let interval = intervals.get(from.checked_sub(1)? as usize)?;
    (value <= interval.high).then_some(interval.value)
}

/// What is stored for a value. The lookup must be of wide values.
pub fn find_wide(lookup: &Lookup, value: u128) -> Option<u32> {
    match &lookup.kind {
        Kind::WideExact(hash) => hash_find(hash, &[(value >> 64) as u64, value as u64]),
        Kind::WideIntervals { buckets, intervals } => find_wide_interval(buckets, intervals, value),
        _ => None,
    }
}

/// Multiplies each word in and folds the product, as wyhash does.
fn hash_words(words: &[u64]) -> u64 {
    words.iter().fold(MULTIPLIER_64, |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER_64);
        (product as u64 ^ (product >> 64) as u64).wrapping_add(MULTIPLIER_64)
    })
}

/// The number of the slot that has the key, or of the empty one where it would be.
fn hash_slot(hash: &LookupHash, key: &[u64], hashed: u64) -> Option<usize> {
    let mut slot = hashed as u32 & hash.mask;
    loop {
        let row = hash.slots.get(slot as usize)?;
        if row.entry == NONE {
            return Some(slot as usize);
        }
        let at = row.entry as usize * (hash.words + 1);
        if row.tag == (hashed >> 32) as u32 && hash.rows.get(at..at + hash.words)? == key {
            return Some(slot as usize);
        }
        slot = (slot + 1) & hash.mask;
    }
}

/// Makes a hash table.
/// - rows: words + 1 each, as in `LookupHash`. Of equal keys the first counts.
pub fn hash_make(words: usize, rows: Vec<u64>) -> LookupHash {
    let count = rows.len() / (words + 1);
    let mask = (1_u32 << slots_log2(count)) - 1;
    let empty = HashSlot {
        tag: 0,
        entry: NONE,
    };
    let mut hash = LookupHash {
        words,
        count,
        mask,
        slots: vec![empty; mask as usize + 1],
        rows,
    };
    for entry in 0..count {
        let at = entry * (words + 1);
        let Some(key) = hash.rows.get(at..at + words) else {
            continue;
        };
        let hashed = hash_words(key);
        let slot = hash_slot(&hash, key, hashed).and_then(|slot| hash.slots.get_mut(slot));
        if let Some(slot) = slot.filter(|slot| slot.entry == NONE) {
            *slot = HashSlot {
                tag: (hashed >> 32) as u32,
                entry: entry as u32,
            };
        }
    }
    hash
}

/// What is stored for a key of as many words as the table's keys.
pub fn hash_find(hash: &LookupHash, key: &[u64]) -> Option<u32> {
    if hash.count == 0 {
        return None;
    }
    let slot = hash_slot(hash, key, hash_words(key))?;
    let entry = hash.slots.get(slot)?.entry;
    if entry == NONE {
        return None;
    }
    let row = entry as usize * (hash.words + 1);
    hash.rows.get(row + hash.words).map(|&value| value as u32)
}
