// SPDX-License-Identifier: GPL-2.0-or-later
//! Splits overlapping elements of a lookup into elements that do not overlap. The kernel refuses two elements of a
//! class that match the same packet; in the firewalls the first matching element counts.

use std::collections::HashSet;

use rust_firewall::policy::Range;

use crate::others::Others;

/// Maximum number of elements into which the elements of a lookup may be split for the kernel: for all classes
/// together, and again for names that are not known yet and for unreadable names.
pub const ELEMENTS_MAX: usize = 1 << 17;

fn overlaps(a: &[Range], b: &[Range]) -> bool {
    let mut pairs = a.iter().zip(b);
    pairs.all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

/// Returns the parts of an element that lie outside of another element, which must overlap it.
fn outside(whole: &[Range], other: &[Range]) -> Vec<Others> {
    let mut rest = whole.to_vec();
    let mut parts = Vec::new();
    for field in 0..whole.len() {
        let (own, taken) = (rest[field], other[field]);
        let mut part = |low, high| {
            let mut part = rest.clone();
            part[field] = Range { low, high };
            parts.push(part);
        };
        if own.low < taken.low {
            part(own.low, taken.low - 1);
        }
        if taken.high < own.high {
            part(taken.high + 1, own.high);
        }
        rest[field] = Range {
            low: own.low.max(taken.low),
            high: own.high.min(taken.high),
        };
    }
    parts
}

fn is_exact(element: &[Range]) -> bool {
    element.iter().all(|range| range.low == range.high)
}

/// Splits elements so that none overlaps an earlier element: a packet still gets the value of the first element that
/// contains it. Returns None if this makes too many elements.
/// - elements: ranges of the fields, and the value.
pub fn first_counts<T: Clone>(elements: Vec<(Others, T)>) -> Option<Vec<(Others, T)>> {
    let key = |element: &[Range]| -> Vec<(u128, u128)> {
        element
            .iter()
            .map(|range| (range.low, range.high))
            .collect()
    };
    let mut seen = HashSet::new();
    let (mut exact, mut ranged): (Vec<Others>, Vec<Others>) = (Vec::new(), Vec::new());
    let mut found: Vec<(Others, T)> = Vec::new();
    for (element, value) in elements {
        if !seen.insert(key(&element)) {
            continue;
        }
        let is_exact = is_exact(&element);
        let earlier = ranged.iter().chain(exact.iter().filter(|_| !is_exact));
        let mut parts = vec![element.clone()];
        for other in earlier {
            if !parts.iter().any(|part| overlaps(part, other)) {
                continue;
            }
            let split = parts.iter().flat_map(|part| match overlaps(part, other) {
                true => outside(part, other),
                false => vec![part.clone()],
            });
            parts = split.collect();
            if found.len() + parts.len() > ELEMENTS_MAX {
                return None;
            }
        }
        found.extend(parts.into_iter().map(|part| (part, value.clone())));
        match is_exact {
            true => exact.push(element),
            false => ranged.push(element),
        }
    }
    (found.len() <= ELEMENTS_MAX).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns elements of two fields. The value of an element is its index.
    fn boxes(all: &[(u128, u128, u128, u128)]) -> Vec<(Others, usize)> {
        let element = |&(a, b, c, d): &(u128, u128, u128, u128)| {
            vec![Range { low: a, high: b }, Range { low: c, high: d }]
        };
        all.iter().map(element).zip(0..).collect()
    }

    fn value(elements: &[(Others, usize)], point: (u128, u128)) -> Vec<usize> {
        let at = [point.0, point.1].map(|value| Range {
            low: value,
            high: value,
        });
        let holding = elements
            .iter()
            .filter(|(element, _)| overlaps(element, &at));
        holding.map(|(_, value)| *value).collect()
    }

    #[test]
    fn the_first_counts_and_nothing_overlaps() {
        let all = boxes(&[
            (3, 3, 3, 3),
            (2, 5, 2, 4),
            (3, 3, 3, 3),
            (0, 9, 3, 3),
            (0, u128::MAX, 0, u128::MAX),
            (4, 4, 9, 9),
        ]);
        let found = first_counts(all.clone()).unwrap();
        for x in 0..12 {
            for y in 0..12 {
                let want = value(&all, (x, y))[0];
                assert_eq!(value(&found, (x, y)), [want], "{x} {y}");
            }
        }
    }

    #[test]
    fn elements_without_other_fields() {
        assert_eq!(
            first_counts(vec![(vec![], "a"), (vec![], "b")]),
            Some(vec![(vec![], "a")])
        );
    }

    #[test]
    fn too_many_are_refused() {
        let lines = (0..600).flat_map(|n: u128| [(n * 2, n * 2, 0, 9999), (0, 9999, n * 2, n * 2)]);
        let lines: Vec<_> = lines.collect();
        assert!(first_counts(boxes(&lines)).is_none());
    }
}
