// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares sets of several fields with a linear search.

use crate::support::engine::{self, Random};
use rust_firewall::engine::fields::{self, Fields, KEY_WORDS_MAX};
use rust_firewall::engine::lookup;
use rust_firewall::engine::set::{self, Set};
use rust_firewall::packet::{Packet, PacketStatus};
use rust_firewall::policy::{Elements, Field, Place, Range, Type};

const KEY: [Field; 3] = [Field::IpSaddr, Field::Ip6Saddr, Field::TcpDport];
const WIDE: [bool; 3] = [false, true, false];
const TYPES: [Type; 3] = [Type::Ipv4Addr, Type::Ipv6Addr, Type::InetService];
const ELEMENTS_MAX: u32 = 120;
const ROUNDS: u32 = 400;
const QUESTIONS: u32 = 300;

/// Returns a number as a field's value. A wide field has the number in its low half and in its high half.
fn widen(field: usize, value: u32) -> u128 {
    let value = u128::from(value);
    match WIDE[field] {
        true => value << 100 | value,
        false => value,
    }
}

/// Returns a random range of a field: a single value, a short range, or all values.
/// - most: the low end of a single value or short range is less than most.
fn make_range(random: &mut Random, field: usize, most: u32) -> Range {
    let low = random.below(most);
    let (low, high) = match random.below(6) {
        0 => (widen(field, low), widen(field, low + random.below(5))),
        1 => (0, widen(field, u32::MAX)),
        _ => (widen(field, low), widen(field, low)),
    };
    Range { low, high }
}

/// Returns fields without values, except for empty interface names.
fn no_fields() -> Fields {
    Fields::from(&engine::input(&Packet::default(), PacketStatus::Ok))
}

fn make_fields(random: &mut Random, most: u32) -> Fields {
    let mut made = no_fields();
    fields::set(&mut made, Field::IpSaddr, random.below(most));
    fields::set_wide(&mut made, Field::Ip6Saddr, widen(1, random.below(most)));
    fields::set(&mut made, Field::TcpDport, random.below(most));
    made
}

fn make_set(types: &[Type], ranges: Vec<Range>) -> Set {
    let elements = Elements {
        fields: types.len(),
        places: vec![Place::default(); ranges.len() / types.len()],
        ..Elements::default()
    };
    set::make(types, &elements, &ranges, 0)
}

fn holds(element: &[Range], fields: &Fields) -> bool {
    element.iter().zip(KEY).all(|(range, field)| {
        let value = fields::value(fields, field);
        range.low <= value && value <= range.high
    })
}

/// Checks that a found element contains the fields' values, and that an element is found if any element contains them.
/// Returns true if an element was found.
fn check(set: &Set, ranges: &[Range], fields: &Fields) -> bool {
    let mut words = [0; KEY_WORDS_MAX];
    let count = fields::words(fields, &KEY, &mut words);
    assert_eq!(count, Some(4));
    let mut elements = ranges.chunks_exact(KEY.len());
    match set::find(set, fields, &KEY, &words[..4]) {
        Some(found) => {
            let element = elements.nth(found as usize);
            assert!(element.is_some_and(|element| holds(element, fields)));
            true
        }
        None => {
            assert!(!elements.any(|element| holds(element, fields)));
            false
        }
    }
}

#[test]
fn finds_what_a_search_one_by_one_finds() {
    let mut random = Random(4);
    let mut found = 0;
    for round in 0..ROUNDS {
        let count = random.below(ELEMENTS_MAX + 1) as usize;
        let most = if round % 2 == 1 { 12 } else { 200 };
        let range = |at| make_range(&mut random, at % KEY.len(), most);
        let ranges: Vec<Range> = (0..count * KEY.len()).map(range).collect();
        let set = make_set(&TYPES, ranges.clone());
        for _ in 0..QUESTIONS {
            let fields = make_fields(&mut random, most);
            found += u32::from(check(&set, &ranges, &fields));
        }
    }
    let all = ROUNDS * QUESTIONS;
    assert!(
        (all / 10..all / 10 * 9).contains(&found),
        "{found} of {all}"
    );
}

#[test]
fn a_missing_field_has_no_words() {
    let mut made = make_fields(&mut Random(5), 9);
    made.present &= !fields::bit(Field::Ip6Saddr);
    let words = fields::words(&made, &KEY, &mut [0; KEY_WORDS_MAX]);
    assert_eq!(words, None);
}

#[test]
fn elements_with_an_empty_first_range_are_left_out() {
    let range = |low, high| Range { low, high };
    let set = make_set(&[Type::Ipv4Addr], vec![range(1, 0), range(7, 7)]);
    let found = [0, 1, 7].map(|value| lookup::find(&set.single, value));
    assert_eq!(found, [None, None, Some(1)]);

    let pair = vec![range(1, 0), range(5, 5), range(7, 7), range(5, 5)];
    let set = make_set(&[Type::Ipv4Addr, Type::Ipv4Addr], pair);
    let key = [Field::IpSaddr, Field::TcpDport];
    let found = [7, 1].map(|value| set::find(&set, &no_fields(), &key, &[value, 5]));
    assert_eq!(found, [Some(1), None]);
}
