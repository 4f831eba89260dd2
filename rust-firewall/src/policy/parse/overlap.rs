// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparison of a set's elements with one another: equal elements are merged, other elements must not overlap, except
//! in a set with auto-merge or a set in braces.
//!
//! Theory of operation: the elements are sorted by their fields, so equal elements are adjacent, and elements with
//! overlapping first fields form a run. If all first fields of a run are equal, the run is sorted by the next field,
//! and is examined by it. If first fields differ and overlap (10.0.0.0/8 and 10.1.0.0/16), each element is compared
//! with the earlier elements whose first field overlaps its own; the number of these comparisons is bounded by
//! COMPARISONS_MAX.

use std::cmp::Ordering;

use crate::base::log::Failure;
use crate::policy::hostname::Hostnames;
use crate::policy::parse::elements::Shape;
use crate::policy::parse::lexer::Lexer;
use crate::policy::print;
use crate::policy::token::quote;
use crate::policy::{Elements, Range};

/// Maximum number of comparisons in the search for overlapping elements of one set or map with several fields. A set
/// that needs more is refused.
const COMPARISONS_MAX: u64 = 1 << 27;

/// Result of the search for overlapping elements: a pair, or the search needs too many comparisons.
enum Found {
    /// Indexes of two overlapping elements.
    Pair(usize, usize),
    TooMany,
}

/// Orders two elements by their fields, then by their place in the text.
fn compare(elements: &Elements, a: u32, b: u32) -> Ordering {
    let key = |range: &Range| (range.low, range.high);
    let (left, right) = (elements.element(a as usize), elements.element(b as usize));
    left.iter()
        .map(key)
        .cmp(right.iter().map(key))
        .then(a.cmp(&b))
}

/// Returns true if two elements of a map have the same value. Always returns true for elements of a set.
fn same_value(elements: &Elements, a: usize, b: usize) -> bool {
    if !elements.marks.is_empty() {
        return elements.marks[a] == elements.marks[b];
    }
    if elements.targets.is_empty() {
        return true;
    }
    let (a, b) = (&elements.targets[a], &elements.targets[b]);
    a.verdict == b.verdict && a.chain == b.chain
}

/// Returns true if two elements overlap in field `from` and in all fields after it.
fn overlaps(elements: &Elements, from: usize, a: usize, b: usize) -> bool {
    let pairs = elements.element(a)[from..]
        .iter()
        .zip(&elements.element(b)[from..]);
    pairs
        .into_iter()
        .all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

/// Searches for two elements that overlap. The elements are equal in all earlier fields and sorted by this field.
/// Compares each element with the earlier elements whose range in this field overlaps its own. Gives up if more
/// comparisons are needed than the budget allows.
/// - budget: in/out: number of comparisons that are still allowed.
fn sweep(elements: &Elements, run: &[u32], field: usize, budget: &mut u64) -> Option<Found> {
    let mut reaching: Vec<u32> = Vec::new();
    for next in run {
        let low = elements.element(*next as usize)[field].low;
        if reaching.len() as u64 > *budget {
            return Some(Found::TooMany);
        }
        *budget -= reaching.len() as u64;
        reaching.retain(|index| elements.element(*index as usize)[field].high >= low);
        for index in &reaching {
            if overlaps(elements, field + 1, *index as usize, *next as usize) {
                return Some(Found::Pair(*index as usize, *next as usize));
            }
        }
        reaching.push(*next);
    }
    None
}

/// Searches for two elements that overlap. The elements are equal in all earlier fields and sorted by this field. Calls
/// itself for the next field.
/// - budget: in/out: number of comparisons that are still allowed.
fn find(elements: &Elements, sorted: &[u32], field: usize, budget: &mut u64) -> Option<Found> {
    let range = |index: usize| elements.element(sorted[index] as usize)[field];
    let mut first = 0;
    while first < sorted.len() {
        let mut high = range(first).high;
        let mut end = first + 1;
        let mut differ = false;
        while end < sorted.len() && range(end).low <= high {
            differ |= range(end) != range(first);
            high = high.max(range(end).high);
            end += 1;
        }
        let run = &sorted[first..end];
        let found = if run.len() == 1 {
            None
        } else if differ {
            sweep(elements, run, field, budget)
        } else {
            find(elements, run, field + 1, budget)
        };
        if found.is_some() {
            return found;
        }
        first = end;
    }
    None
}

/// Returns the failure for two conflicting elements, at the place of the element that is later in the text.
/// - cause: middle of the error text, between the later element and the place of the earlier element.
fn fail_pair(
    lexer: &Lexer,
    hostnames: &Hostnames,
    shape: &Shape,
    elements: &Elements,
    pair: (usize, usize),
    cause: &str,
) -> Failure {
    let (earlier, later) = (pair.0.min(pair.1), pair.0.max(pair.1));
    let mut text = String::new();
    for (range, (kind, _)) in elements.element(later).iter().zip(&shape.fields) {
        if !text.is_empty() {
            text.push_str(" . ");
        }
        print::range(&mut text, hostnames, *kind, range);
    }
    let at = lexer.place_name(elements.places[earlier]);
    let text = format!("{}: {cause} {at}", quote(&text));
    lexer.fail(elements.places[later], text)
}

/// Removes the elements for which `removed` is true.
fn leave_out(elements: &mut Elements, removed: &[bool]) {
    fn keep<T>(items: &mut Vec<T>, removed: &[bool], each: usize) {
        let mut index = 0;
        items.retain(|_| {
            index += 1;
            !removed[(index - 1) / each]
        });
    }
    let fields = elements.fields;
    keep(&mut elements.ranges, removed, fields);
    keep(&mut elements.targets, removed, 1);
    keep(&mut elements.marks, removed, 1);
    keep(&mut elements.places, removed, 1);
}

/// Merges equal elements. Fails if equal elements map to different values, if two other elements overlap, or if the
/// search for overlaps needs too many comparisons.
/// - merges: true if the elements of a set, but not of a map, may overlap.
pub fn check(
    lexer: &Lexer,
    hostnames: &Hostnames,
    shape: &Shape,
    elements: &mut Elements,
    merges: bool,
) -> Result<(), Failure> {
    let is_map = !elements.targets.is_empty() || !elements.marks.is_empty();
    let count = elements.count();
    let mut sorted: Vec<u32> = (0..count as u32).collect();
    sorted.sort_unstable_by(|a, b| compare(elements, *a, *b));
    let mut removed = vec![false; count];
    let mut kept: Vec<u32> = Vec::with_capacity(count);
    for index in &sorted {
        let next = *index as usize;
        let last = kept.last().map(|last| *last as usize);
        match last.filter(|last| elements.element(*last) == elements.element(next)) {
            Some(last) if same_value(elements, last, next) => removed[next] = true,
            Some(last) => {
                let cause = "has another value at";
                return Err(fail_pair(
                    lexer,
                    hostnames,
                    shape,
                    elements,
                    (last, next),
                    cause,
                ));
            }
            None => kept.push(*index),
        }
    }
    let mut budget = COMPARISONS_MAX;
    let found = if merges && !is_map {
        None
    } else {
        find(elements, &kept, 0, &mut budget)
    };
    match found {
        Some(Found::Pair(a, b)) => {
            let cause = "overlaps an element at";
            Err(fail_pair(lexer, hostnames, shape, elements, (a, b), cause))
        }
        Some(Found::TooMany) => {
            let text = "too many of these elements overlap in their first fields to compare them \
             all: let the field that distinguishes them be the first";
            Err(lexer.fail(elements.places[0], text))
        }
        None => {
            if kept.len() < count {
                leave_out(elements, &removed);
            }
            Ok(())
        }
    }
}
