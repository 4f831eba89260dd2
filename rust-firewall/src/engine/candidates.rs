// SPDX-License-Identifier: GPL-2.0-or-later
//! Search for candidates by a value. Candidates are the rules of a chain that test one field, or the elements of a set
//! whose keys have several fields. The values are divided into intervals; all values of an interval have the same
//! candidates.

use crate::engine::lookup::{self, Lookup, LookupRange};

/// Maximum number of intervals of one item (rule or element). An item with more intervals is left out of the lists, so
/// that the lists' total length stays proportional to the number of items.
pub const INTERVALS_MAX: u32 = 32;

#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Lookup from a value to the number of the list with its candidates.
    pub lookup: Lookup,
    /// Start of each list: list n is ids[starts[n]] to ids[starts[n + 1] - 1].
    pub starts: Vec<u32>,
    /// IDs of the items in all lists, ascending within a list.
    pub ids: Vec<u32>,
}

/// Range of interval numbers.
type Span = std::ops::Range<usize>;

/// Returns the values at which an interval begins, ascending: all values at which a range begins, or which follow the
/// end of a range. Interval n ends before interval n + 1 begins.
fn find_bounds(ranges: &[LookupRange]) -> Vec<u128> {
    let lows = ranges.iter().map(|range| range.low);
    let behind = ranges.iter().filter_map(|range| range.high.checked_add(1));
    let mut bounds: Vec<u128> = lows.chain(behind).collect();
    bounds.sort_unstable();
    bounds.dedup();
    bounds
}

/// Returns the number of the interval that begins at a bound.
fn interval_at(bounds: &[u128], bound: u128) -> usize {
    bounds.partition_point(|&other| other < bound)
}

/// Returns the numbers of the intervals that a range contains.
fn span(bounds: &[u128], range: &LookupRange) -> Span {
    let behind = range.high.checked_add(1);
    interval_at(bounds, range.low)..behind.map_or(bounds.len(), |high| interval_at(bounds, high))
}

fn leave_out(spans: &[Span], ranges: &[LookupRange], left_out: &mut [bool]) {
    let mut totals = vec![0; left_out.len()];
    for (range, span) in ranges.iter().zip(spans) {
        totals[range.value as usize] += span.len() as u32;
    }
    for range in ranges {
        left_out[range.value as usize] = totals[range.value as usize] > INTERVALS_MAX;
    }
}

/// Returns `starts` and `ids` of the lists (`Candidates`): counts the items of each interval first, then stores them.
/// - intervals: number of intervals.
fn fill_lists(
    intervals: usize,
    spans: &[Span],
    ranges: &[LookupRange],
    left_out: &[bool],
) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0; intervals + 1];
    let all = || ranges.iter().zip(spans);
    let kept = || all().filter(|(range, _)| !left_out[range.value as usize]);
    for (_, span) in kept() {
        for at in span.clone() {
            starts[at + 1] += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut fill = starts.clone();
    let mut ids = vec![0; total as usize];
    for (range, span) in kept() {
        for at in span.clone() {
            ids[fill[at] as usize] = range.value;
            fill[at] += 1;
        }
    }
    (starts, ids)
}

/// Creates the lookup from values to the numbers of their lists of candidates (rules or set elements). Omits intervals
/// with an empty list.
fn make_lookup(bounds: &[u128], starts: &[u32], bits: u32) -> Lookup {
    let mut lists = Vec::with_capacity(bounds.len());
    for (at, &low) in bounds.iter().enumerate() {
        if starts[at] < starts[at + 1] {
            let high = bounds.get(at + 1).map_or(u128::MAX, |next| next - 1);
            let value = at as u32;
            lists.push(LookupRange { low, high, value });
        }
    }
    lookup::make(bits, &mut lists)
}

/// Creates the lists of candidates.
/// - bits: number of bits of a value, as for `lookup::make`.
/// - ranges: the value of each range is the ID of its item, less than left_out.len(). The IDs must not descend. The
///   ranges of one ID must not overlap.
/// - left_out: out: a flag for each ID; true for IDs that are in no list because their ranges have too many intervals.
///   Unchanged for IDs without ranges.
pub fn make(bits: u32, ranges: &[LookupRange], left_out: &mut [bool]) -> Candidates {
    let bounds = find_bounds(ranges);
    let spans: Vec<Span> = ranges.iter().map(|range| span(&bounds, range)).collect();
    leave_out(&spans, ranges, left_out);
    let (starts, ids) = fill_lists(bounds.len(), &spans, ranges, left_out);
    Candidates {
        lookup: make_lookup(&bounds, &starts, bits),
        starts,
        ids,
    }
}

/// Returns the expected number of candidates of a search that finds a list, rounded up. The probability of a list is
/// assumed to be proportional to its length.
pub fn cost(candidates: &Candidates) -> u32 {
    let (mut total, mut weighted) = (0, 0);
    for pair in candidates.starts.windows(2) {
        let length = u64::from(pair[1] - pair[0]);
        total += length;
        weighted += length * length;
    }
    match total {
        0 => 0,
        _ => weighted.div_ceil(total) as u32,
    }
}

/// Returns the IDs of the items in a list of candidates.
pub fn list(candidates: &Candidates, list: u32) -> &[u32] {
    let at = |n: usize| candidates.starts.get(n).map(|&start| start as usize);
    let (Some(start), Some(end)) = (at(list as usize), at(list as usize + 1)) else {
        return &[];
    };
    candidates.ids.get(start..end).unwrap_or_default()
}
