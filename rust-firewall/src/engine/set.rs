// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets and maps, named or not, in the form for lookups.

use crate::engine::candidates::{self, Candidates};
use crate::engine::fields::{self, Fields};
use crate::engine::hostnames;
use crate::engine::lookup::{self, Lookup, LookupRange};
use crate::engine::lookup_hash::{self, LookupHash};
use crate::engine::marks::VALUES_MAX;
use crate::policy::{Elements, Field, Range, Type, Verdict, KEY_FIELDS_MAX};

/// Target of a rule or of a verdict map's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTarget {
    pub verdict: Verdict,
    /// Target chain of jump and goto, numbered as by `compile`.
    pub chain: u32,
}

/// A set or map. Elements are numbered in the order of the text; values of a map are indexed by that number.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// Number of fields of a key.
    fields: usize,
    /// Lookup of a key with one field.
    pub single: Lookup,
    /// Lookup of exact elements, for keys with several fields. Elements without ranges are found here by the hash of
    /// their values. Elements with ranges are found by the candidates of one field, and then compared.
    exact: LookupHash,
    /// Numbers of the elements with ranges.
    ranged: Vec<u32>,
    /// Ranges of the elements in ranged, `fields` per element.
    ranges: Vec<Range>,
    /// Index of a field in the key. The search in `candidates` uses the value of this field.
    by: usize,
    candidates: Candidates,
    /// Indexes into `ranged` of the elements that no list of `candidates` has.
    always: Vec<u32>,
    /// True if elements can be nested: then the element that comes first in ranged is found.
    nested: bool,
    /// Marks of a map to marks, one per element; otherwise empty.
    pub marks: Vec<u32>,
    /// Targets of a verdict map, one per element; otherwise empty.
    pub targets: Vec<SetTarget>,
    /// Different marks of a map to marks, at most VALUES_MAX + 1 of them.
    pub possible: Vec<u32>,
    /// All different targets of a verdict map.
    pub leads: Vec<SetTarget>,
}

fn bits(wide: bool) -> u32 {
    if wide {
        128
    } else {
        32
    }
}

fn is_left_out(element: &[Range]) -> bool {
    element.first().is_some_and(|range| range.low > range.high)
}

fn is_exact(element: &[Range]) -> bool {
    element.iter().all(|range| range.low == range.high)
}

/// Returns true if the engine's values of a type are wide: longer than 32 bits.
fn is_wide(kind: Type) -> bool {
    matches!(kind, Type::Ipv6Addr | Type::Ifname | Type::HttpMethod)
}

/// Creates the lookup of a key with one field.
/// - is_map: true if it matters which element is found.
fn make_single(kind: Type, ranges: &[Range], is_map: bool) -> Lookup {
    let mut all: Vec<LookupRange> = (0..)
        .zip(ranges)
        .filter(|(_, range)| range.low <= range.high)
        .map(|(value, &Range { low, high })| LookupRange { low, high, value })
        .collect();
    if kind == Type::Hostname {
        for range in &mut all {
            range.value = if is_map { range.value } else { 0 };
        }
        hostnames::part(&mut all);
    }
    lookup::make(bits(is_wide(kind)), &mut all)
}

/// Elements of a set whose host names may be nested, to be sorted by their width.
struct Nested<'a> {
    types: &'a [Type],
    ranges: &'a [Range],
}

/// Returns the width of an element: the number of the policy's names below the element's host names.
fn width(nested: &Nested, number: u32) -> u128 {
    let fields = nested.types.len();
    let first = number as usize * fields;
    let element = &nested.ranges[first..first + fields];
    let hosts = element.iter().zip(nested.types);
    hosts
        .filter(|(_, kind)| **kind == Type::Hostname)
        .fold(0, |sum, (range, _)| sum + (range.high - range.low))
}

/// Sorts elements with ranges by the width of their host names, the most specific first.
fn sort_nested(set: &mut Set, types: &[Type], ranges: &[Range]) {
    let nested = Nested { types, ranges };
    set.ranged.sort_by_key(|&number| width(&nested, number));
}

/// Divides the elements into those with exact values, which become rows of words, and those with ranges.
fn make_exact(set: &mut Set, wide: &[bool], ranges: &[Range]) {
    let words = wide.iter().map(|&wide| if wide { 2 } else { 1 }).sum();
    let mut rows = Vec::new();
    for (number, element) in (0..).zip(ranges.chunks_exact(set.fields)) {
        if is_left_out(element) {
            continue;
        }
        if !is_exact(element) {
            set.ranged.push(number);
            continue;
        }
        for (range, &wide) in element.iter().zip(wide) {
            if wide {
                rows.push((range.low >> 64) as u64);
            }
            rows.push(range.low as u64);
        }
        rows.push(number.into());
    }
    set.exact = lookup_hash::hash_make(words, rows);
}

/// Creates the search for the elements with ranges (the candidates) by one field of the key.
/// - by: index of the field in the key.
/// - wide: true if values of the field are longer than 32 bits.
/// - left_out: out: true for the elements that this search does not find, and that are therefore compared one by one.
fn make_by(set: &Set, by: usize, wide: bool, left_out: &mut [bool]) -> Candidates {
    let all: Vec<LookupRange> = (0..)
        .zip(set.ranges.iter().skip(by).step_by(set.fields))
        .map(|(value, &Range { low, high })| LookupRange { low, high, value })
        .collect();
    candidates::make(bits(wide), &all, left_out)
}

/// Returns the expected number of elements that a search compares with a key.
/// - left_out: true for the elements that are not among the candidates.
fn cost(candidates: &Candidates, left_out: &[bool]) -> u64 {
    let always = left_out.iter().filter(|&&left_out| left_out).count();
    always as u64 + u64::from(candidates::cost(candidates))
}

/// Chooses the field whose candidates leave the fewest elements to compare; of equal fields the first.
fn make_candidates(set: &mut Set, wide: &[bool]) {
    let mut best = u64::MAX;
    let mut best_out = Vec::new();
    for (by, &wide) in wide.iter().enumerate() {
        let mut left_out = vec![false; set.ranged.len()];
        let made = make_by(set, by, wide, &mut left_out);
        let cost = cost(&made, &left_out);
        if cost >= best {
            continue;
        }
        best = cost;
        best_out = left_out;
        set.candidates = made;
        set.by = by;
    }
    let left_out = (0..).zip(&best_out).filter(|&(_, &left_out)| left_out);
    set.always = left_out.map(|(ranged, _)| ranged).collect();
}

fn make_ranged(set: &mut Set, wide: &[bool], ranges: &[Range]) {
    for &number in &set.ranged {
        let first = number as usize * set.fields;
        set.ranges
            .extend_from_slice(&ranges[first..first + set.fields]);
    }
    make_candidates(set, wide);
}

fn make_possible(set: &mut Set) {
    for &mark in &set.marks {
        if set.possible.len() <= VALUES_MAX && !set.possible.contains(&mark) {
            set.possible.push(mark);
        }
    }
}

fn make_leads(set: &mut Set) {
    set.leads.clone_from(&set.targets);
    set.leads
        .sort_by_key(|target| (target.verdict as u32, target.chain));
    set.leads.dedup();
}

fn make_map(set: &mut Set, elements: &Elements, first_chain: u32) {
    set.marks.clone_from(&elements.marks);
    let targets = elements.targets.iter().map(|target| SetTarget {
        verdict: target.verdict,
        chain: first_chain + target.chain_index,
    });
    set.targets = targets.collect();
    make_possible(set);
    make_leads(set);
}

/// Creates a set.
/// - types: types of the key's fields.
/// - ranges: ranges of all elements, elements.fields each. They replace elements.ranges, because names of interfaces
///   have become indexes, and host names numbers. An element whose first range is empty (low > high) is left out. A set
///   of one field may have additional elements. Host names may be nested: the innermost is found.
/// - first_chain: number of the table's first chain.
pub fn make(types: &[Type], elements: &Elements, ranges: &[Range], first_chain: u32) -> Set {
    let mut set = Set {
        fields: types.len(),
        nested: types.contains(&Type::Hostname),
        ..Set::default()
    };
    let wide: Vec<bool> = types.iter().map(|kind| is_wide(*kind)).collect();
    if let [kind] = types {
        let is_map = !elements.marks.is_empty() || !elements.targets.is_empty();
        set.single = make_single(*kind, ranges, is_map);
    } else {
        make_exact(&mut set, &wide, ranges);
    }
    if set.nested {
        sort_nested(&mut set, types, ranges);
    }
    if !set.ranged.is_empty() {
        make_ranged(&mut set, &wide, ranges);
    }
    make_map(&mut set, elements, first_chain);
    set
}

#[deny(clippy::indexing_slicing)]
fn element_holds(set: &Set, ranged: u32, values: &[u128]) -> bool {
    let first = ranged as usize * set.fields;
    let element = set.ranges.get(first..first + set.fields);
    element.is_some_and(|element| {
        element
            .iter()
            .zip(values)
            .all(|(range, value)| (range.low..=range.high).contains(value))
    })
}

/// Returns the index in ranged of a list's first element that contains the values.
#[deny(clippy::indexing_slicing)]
fn find_ranged(set: &Set, list: &[u32], values: &[u128]) -> Option<u32> {
    let mut list = list.iter().copied();
    list.find(|&ranged| element_holds(set, ranged, values))
}

/// Returns the number of the element that contains the values of a key with several fields.
/// - words: words of the key, from `fields::words`.
#[deny(clippy::indexing_slicing)]
pub fn find(set: &Set, fields: &Fields, key: &[Field], words: &[u64]) -> Option<u32> {
    let found = lookup_hash::hash_find(&set.exact, words);
    if found.is_some() || set.ranged.is_empty() {
        return found;
    }
    let mut values = [0; KEY_FIELDS_MAX];
    for (value, &field) in values.iter_mut().zip(key) {
        *value = fields::value(fields, field);
    }
    let by = *values.get(set.by)?;
    let list = match fields::wide_slot(*key.get(set.by)?) {
        Some(_) => lookup::find_wide(&set.candidates.lookup, by),
        None => lookup::find(&set.candidates.lookup, by as u32),
    };
    let list = list.map_or(&[] as &[u32], |list| {
        candidates::list(&set.candidates, list)
    });
    let mut found = find_ranged(set, list, &values);
    if found.is_none() || set.nested {
        let other = find_ranged(set, &set.always, &values);
        found = found.into_iter().chain(other).min();
    }
    set.ranged.get(found? as usize).copied()
}
