// SPDX-License-Identifier: GPL-2.0-or-later
//! Lookup of a value: hash tables for exact values, sorted intervals for ranges. Created once, then only read.
#![deny(clippy::indexing_slicing)]

use crate::engine::lookup_hash::{self, LookupHash, LookupSlot, LookupTable};

/// Maximum number of bits of a narrow value; others are wide.
pub const NARROW_BITS: u32 = 32;
/// Maximum number of buckets (groups of intervals) of a lookup.
pub const BUCKETS_MAX: usize = 1 << 17;

/// Range of values (from low to high, both included) with the same result, `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupRange {
    /// Lowest value of the range; at most high.
    pub low: u128,
    pub high: u128,
    pub value: u32,
}

/// Range of values with at most 32 bits and the same result. The intervals of a lookup ascend and do not overlap.
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

/// Index of a lookup's intervals by their first value. Bucket n has the first values with (value - base) >> shift = n;
/// its intervals are starts[n] to starts[n + 1] - 1.
#[derive(Clone, Debug)]
struct Buckets {
    /// Lowest value of all intervals.
    base: u128,
    shift: u32,
    /// Index of each bucket's first interval, then the number of intervals.
    starts: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Empty,
    /// Values with at most 32 bits; every range is one value.
    Exact(LookupTable),
    /// Values with at most 32 bits; at least one range has several values.
    Intervals {
        buckets: Buckets,
        intervals: Vec<Interval>,
    },
    /// Values with more than 32 bits; every range is one value.
    WideExact(LookupHash),
    /// Values with more than 32 bits; at least one range has several values.
    WideIntervals {
        buckets: Buckets,
        intervals: Vec<WideInterval>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Lookup {
    kind: Kind,
}

/// Sorts ranges and removes overlaps: a value in two ranges belongs to the range that begins first; if both begin at
/// the same value, to the range with the lower result. Removes ranges that become empty.
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

fn make_exact(ranges: &[LookupRange]) -> Kind {
    let entries = ranges.iter().map(|range| LookupSlot {
        tag: range.low as u32,
        value: range.value,
    });
    Kind::Exact(lookup_hash::table_make(&entries.collect::<Vec<_>>()))
}

/// Creates about as many buckets (groups of adjacent intervals) as there are ranges, but at most BUCKETS_MAX.
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
    Kind::WideExact(lookup_hash::hash_make(2, rows.collect()))
}

/// Creates a lookup of values with this many bits.
/// - ranges: changed as by `part`.
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

fn find_interval(buckets: &Buckets, intervals: &[Interval], value: u32) -> Option<u32> {
    let offset = u64::from(value.checked_sub(buckets.base as u32)?);
    let last = buckets.starts.len().checked_sub(2)?;
    let bucket = ((offset >> buckets.shift) as usize).min(last);
    let mut from = *buckets.starts.get(bucket)?;
    let mut to = *buckets.starts.get(bucket + 1)?;
    // Finds the first interval that begins after the value; only the one before it can contain the value.
    while from < to {
        let middle = from + (to - from) / 2;
        if intervals.get(middle as usize)?.low <= value {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    // from is not 0, because the first interval begins at the base.
    let interval = intervals.get(from.checked_sub(1)? as usize)?;
    (value <= interval.high).then_some(interval.value)
}

/// Returns the result for a value; None if no range contains the value. The lookup must be of values with at most 32
/// bits.
#[inline(always)]
pub fn find(lookup: &Lookup, value: u32) -> Option<u32> {
    match &lookup.kind {
        Kind::Exact(table) => lookup_hash::table_find(table, value),
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

/// Returns the result for a value; None if no range contains the value. The lookup must be of values with more than 32
/// bits.
pub fn find_wide(lookup: &Lookup, value: u128) -> Option<u32> {
    match &lookup.kind {
        Kind::WideExact(hash) => {
            lookup_hash::hash_find(hash, &[(value >> 64) as u64, value as u64])
        }
        Kind::WideIntervals { buckets, intervals } => find_wide_interval(buckets, intervals, value),
        _ => None,
    }
}
