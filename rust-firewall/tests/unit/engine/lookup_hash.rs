// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests hash tables: the results, and the maximum number of slots that a search examines, also for values that an
//! attacker chose.

use rust_firewall::engine::lookup_hash::{self, LookupSlot, NONE, PROBES_MAX};

const CHOSEN: u64 = 50_000;
/// Number of slots for CHOSEN values: a power of 2, at least 2 * CHOSEN.
const SLOTS: usize = 1 << 17;
/// Numbers near 2^32 and 2^64 divided by the golden ratio: multipliers of a usual hash without a key.
const MULTIPLIER_32: u32 = 0x9e37_79b1;
const MULTIPLIER_64: u64 = 0x9e37_79b9_7f4a_7c15;

/// Checks that no search examines more than PROBES_MAX used slots, and that the table has SLOTS slots.
fn assert_bounded(slots: &[LookupSlot]) {
    assert_eq!(slots.len(), SLOTS);
    let (mut used, mut most) = (0, 0);
    for slot in slots.iter().chain(slots) {
        used = if slot.value == NONE { 0 } else { used + 1 };
        most = most.max(used);
    }
    assert!(most > 0 && most <= PROBES_MAX, "{most} side by side");
}

/// Returns true if a hash without a key would place the words in the first 64th of the slots.
fn meets(words: [u64; 2]) -> bool {
    let hash = words.iter().fold(MULTIPLIER_64, |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER_64);
        (product as u64 ^ (product >> 64) as u64).wrapping_add(MULTIPLIER_64)
    });
    (hash as usize & (SLOTS - 1)) < SLOTS / 64
}

#[test]
fn chosen_words_do_not_meet() {
    let words = (1..).map(|i: u64| [0x2001_0db8_0000_0001, i.wrapping_mul(MULTIPLIER_64)]);
    let chosen = words.filter(|&words| meets(words)).take(CHOSEN as usize);
    let rows: Vec<u64> = (0..)
        .zip(chosen)
        .flat_map(|(value, [high, low])| [high, low, value])
        .collect();
    let made = lookup_hash::hash_make(2, rows.clone());
    assert_bounded(&made.table.slots);
    for row in rows.chunks_exact(3) {
        let found = lookup_hash::hash_find(&made, &row[..2]);
        assert_eq!(found, Some(row[2] as u32));
    }
}

#[test]
fn chosen_values_do_not_meet() {
    // The inverse of MULTIPLIER_32: Newton's method doubles the number of correct bits.
    let inverse = (0..5).fold(1_u32, |inverse, _| {
        let rest = 2_u32.wrapping_sub(MULTIPLIER_32.wrapping_mul(inverse));
        inverse.wrapping_mul(rest)
    });
    let entries: Vec<_> = (0..CHOSEN as u32)
        .map(|value| LookupSlot {
            tag: value.wrapping_mul(inverse),
            value,
        })
        .collect();
    let made = lookup_hash::table_make(&entries);
    assert_bounded(&made.slots);
    for entry in &entries {
        let found = lookup_hash::table_find(&made, entry.tag);
        assert_eq!(found, Some(entry.value));
    }
    assert_eq!(lookup_hash::table_find(&made, inverse.wrapping_neg()), None);
}

#[test]
fn each_table_has_a_key_of_its_own() {
    let entries: Vec<_> = (0..100).map(|tag| LookupSlot { tag, value: tag }).collect();
    let places = || {
        let made = lookup_hash::table_make(&entries);
        made.slots.iter().map(|slot| slot.value).collect::<Vec<_>>()
    };
    assert_ne!(places(), places());
}

#[test]
fn nothing_is_found_in_nothing() {
    let made = lookup_hash::hash_make(2, Vec::new());
    assert_eq!(lookup_hash::hash_find(&made, &[0, 0]), None);
    let made = lookup_hash::table_make(&[]);
    assert_eq!(lookup_hash::table_find(&made, 0), None);
}

#[test]
fn many_words_are_found_by_all_of_them() {
    let row = |i: u64| [i % 10, i / 10 % 10, i / 100, 5000 - i];
    let made = lookup_hash::hash_make(3, (0..5000).flat_map(row).collect());
    for i in 0..5000 {
        let [a, b, c, value] = row(i);
        assert_eq!(
            lookup_hash::hash_find(&made, &[a, b, c]),
            Some(value as u32)
        );
    }
    for key in [[10, 0, 0], [0, 10, 0], [0, 0, 50]] {
        assert_eq!(lookup_hash::hash_find(&made, &key), None);
    }
}

#[test]
fn of_equal_keys_the_first_counts() {
    let made = lookup_hash::hash_make(1, vec![9, 1, 9, 2]);
    assert_eq!(lookup_hash::hash_find(&made, &[9]), Some(1));
}
