// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares lists of candidates with a linear search.

use crate::support::engine::Random;
use rust_firewall::engine::candidates::{self, Candidates};
use rust_firewall::engine::lookup::{self, LookupRange};

const IDS_MAX: u32 = 60;
const ROUNDS: usize = 2000;

fn list(candidates: &Candidates, value: u128, bits: u32) -> &[u32] {
    let list = match bits {
        32 => lookup::find(&candidates.lookup, value as u32),
        _ => lookup::find_wide(&candidates.lookup, value),
    };
    list.map_or(&[], |list| candidates::list(candidates, list))
}

#[test]
fn lists_hold_all_that_concern_a_value() {
    let mut random = Random(2);
    let mut left_outs = 0;
    for round in 0..ROUNDS {
        let bits = if round % 2 == 1 { 32 } else { 128 };
        let range = |value| {
            let low = random.below(200);
            let wide = if random.below(8) == 0 { 100 } else { 4 };
            LookupRange {
                low: low.into(),
                high: (low + random.below(wide)).into(),
                value,
            }
        };
        let count = Random(round as u64).below(IDS_MAX + 1);
        let ranges: Vec<LookupRange> = (0..count).map(range).collect();
        let mut left_out = vec![false; ranges.len()];
        let made = candidates::make(bits, &ranges, &mut left_out);
        for value in 0..310 {
            let expected: Vec<u32> = ranges
                .iter()
                .filter(|range| !left_out[range.value as usize])
                .filter(|range| range.low <= value && value <= range.high)
                .map(|range| range.value)
                .collect();
            assert_eq!(list(&made, value, bits), expected, "{value} of {ranges:?}");
        }
        left_outs += left_out.iter().filter(|&&left_out| left_out).count();
    }
    assert!(left_outs > 100, "only {left_outs}");
}

#[test]
fn what_concerns_too_much_is_left_out() {
    // The 39 single values 0, 2, 4 … 76 make 77 intervals.
    let mut ranges: Vec<LookupRange> = (0..39)
        .map(|value| LookupRange {
            low: 2 * u128::from(value),
            high: 2 * u128::from(value),
            value,
        })
        .collect();
    for (high, is_left_out, cost) in [(31, false, 2), (32, true, 1)] {
        ranges.push(LookupRange {
            low: 0,
            high,
            value: 39,
        });
        let mut left_out = vec![false; 40];
        let made = candidates::make(32, &ranges, &mut left_out);
        assert_eq!(left_out[39], is_left_out);
        assert_eq!(candidates::cost(&made), cost);
        ranges.pop();
    }
}

#[test]
fn the_highest_value_has_nothing_behind_it() {
    let range = |low, value| LookupRange {
        low,
        high: u128::MAX,
        value,
    };
    let ranges = [range(u128::MAX - 1, 0), range(u128::MAX, 1)];
    let made = candidates::make(128, &ranges, &mut [false; 2]);
    assert_eq!(list(&made, u128::MAX, 128), [0, 1]);
    assert_eq!(list(&made, u128::MAX - 1, 128), [0]);
    assert_eq!(list(&made, u128::MAX - 2, 128), [] as [u32; 0]);
}
