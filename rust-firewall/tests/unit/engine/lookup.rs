// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares lookups with a linear search.

use crate::support::engine::Random;
use rust_firewall::engine::lookup::{self, LookupRange};

const RANGES_MAX: u32 = 40;
const ROUNDS: usize = 2000;

/// Returns the result for a value by a linear search of ranges without overlaps.
fn expected(ranges: &[LookupRange], value: u128) -> Option<u32> {
    let mut holding = ranges
        .iter()
        .filter(|range| range.low <= value && value <= range.high);
    holding.next().map(|range| range.value)
}

/// Returns random ranges of few values, so that ranges touch and overlap. The values are multiplied by 2^shift.
/// - exact: true for ranges that contain a single value.
fn make_ranges(random: &mut Random, shift: u32, exact: bool) -> Vec<LookupRange> {
    let count = random.below(RANGES_MAX + 1);
    let make = |value| {
        let low = random.below(250);
        let high = if exact { low } else { low + random.below(6) };
        let rest = if exact { 0 } else { (1 << shift) - 1 };
        LookupRange {
            low: u128::from(low) << shift,
            high: u128::from(high) << shift | rest,
            value,
        }
    };
    (0..count).map(make).collect()
}

fn check(random: &mut Random, bits: u32, shift: u32, exact: bool) {
    let mut ranges = make_ranges(random, shift, exact);
    lookup::part(&mut ranges);
    let made = lookup::make(bits, &mut ranges.clone());
    for at in 0..256_u128 {
        for offset in [u128::MAX, 0, 1] {
            let value = (at << shift).wrapping_add(offset);
            let (value, got) = match bits {
                32 => (u128::from(value as u32), lookup::find(&made, value as u32)),
                _ => (value, lookup::find_wide(&made, value)),
            };
            assert_eq!(got, expected(&ranges, value), "{value:#x} of {ranges:#x?}");
        }
    }
}

#[test]
fn finds_what_a_search_one_by_one_finds() {
    let mut random = Random(1);
    for _ in 0..ROUNDS {
        check(&mut random, 32, 0, false);
        check(&mut random, 32, 24, false);
        check(&mut random, 32, 13, true);
        check(&mut random, 128, 0, false);
        check(&mut random, 128, 120, false);
        check(&mut random, 128, 60, true);
    }
}

fn ranges(of: &[(u128, u128, u32)]) -> Vec<LookupRange> {
    let range = |&(low, high, value)| LookupRange { low, high, value };
    of.iter().map(range).collect()
}

#[test]
fn parting_leaves_what_begins_first() {
    let mut all = ranges(&[
        (5, 9, 2),
        (0, 6, 1),
        (7, 8, 3),
        (9, 12, 4),
        (20, 20, 6),
        (20, 20, 5),
    ]);
    lookup::part(&mut all);
    assert_eq!(
        all,
        ranges(&[(0, 6, 1), (7, 9, 2), (10, 12, 4), (20, 20, 5)])
    );
}

#[test]
fn all_values_of_a_type_can_be_one_range() {
    let made = lookup::make(32, &mut ranges(&[(0, u32::MAX.into(), 7)]));
    assert_eq!(lookup::find(&made, 0), Some(7));
    assert_eq!(lookup::find(&made, u32::MAX), Some(7));
    let made = lookup::make(128, &mut ranges(&[(0, u128::MAX, 8)]));
    assert_eq!(lookup::find_wide(&made, 0), Some(8));
    assert_eq!(lookup::find_wide(&made, u128::MAX), Some(8));
}

#[test]
fn nothing_is_found_in_nothing() {
    let made = lookup::make(32, &mut Vec::new());
    assert_eq!(lookup::find(&made, 0), None);
}
