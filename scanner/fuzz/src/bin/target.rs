// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzes the parsers of targets and ports with arbitrary text: no panic; the printed form of ports means the same
//! ports; a range is ordered and within its family; a set of ranges finds its first, middle and last member.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scanner::ports::Ports;
use scanner::targets::grammar::{parse, Word};
use scanner::targets::set::{subtract, Set};
use scanner::targets::{authorise, Family, Range};

fuzz_target!(|text: &str| {
    if let Ok(ports) = Ports::parse(text) {
        assert_eq!(Ports::parse(&ports.text()).as_ref(), Ok(&ports));
    }
    let mut ranges = Vec::new();
    for word in text.split([' ', '\n']) {
        match parse(word) {
            Ok(Word::Range {
                family,
                scope,
                first,
                last,
            }) => {
                assert!(first <= last && (family == Family::V6 || last <= u128::from(u32::MAX)));
                ranges.push(Range {
                    family,
                    scope: scope.map_or(0, |name| name.len() as u32),
                    first,
                    last,
                });
            }
            Ok(Word::Name(name)) => assert!(!name.contains(['/', ':', '%'])),
            Err(why) => assert!(!why.is_empty() && !why.contains('\n')),
        }
    }
    let _ = authorise::check(&ranges, false);
    let allowed = subtract(&ranges, &authorise::nobody());
    let Some(set) = Set::new(allowed) else { return };
    for member in [0, set.len() / 2, set.len().saturating_sub(1)] {
        if member < set.len() {
            assert_eq!(set.position(set.get(member)), Some(member));
        }
    }
});
