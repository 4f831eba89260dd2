// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests learned addresses: their expiry, their separation by set, eviction from a full table, and reads during writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rust_firewall::engine::learned::{self, LearnedAddress};

const ROOM: u32 = 64;
const MORE: u128 = 1000;
const ROUNDS: u128 = 200_000;

#[test]
fn an_address_is_known_until_its_end() {
    let learned = learned::make(ROOM);
    let high = 1 << 100;
    assert!(!learned::find(&learned, 1, 7, 0));
    learned::add(&learned, 1, 7, 100, 0);
    assert!(learned::find(&learned, 1, 7, 99));
    assert!(!learned::find(&learned, 1, 7, 100));
    assert!(!learned::find(&learned, 2, 7, 99), "of another set");
    assert!(!learned::find(&learned, 1, 7 + high, 99), "another address");
    learned::add(&learned, 1, 7, 50, 0);
    assert!(learned::find(&learned, 1, 7, 99), "nothing shortens it");
    assert_eq!(learned::end(&learned, 1, 7), 100);
    assert_eq!(learned::end(&learned, 2, 7), 0);
    learned::add(&learned, 1, 7, 200, 0);
    assert!(learned::find(&learned, 1, 7, 199));
    learned::add(&learned, 2, 7 + high, 150, 0);
    assert_eq!(learned::count(&learned, 149), 2);
    assert_eq!(learned::count(&learned, 150), 1);
    assert_eq!(learned::count(&learned, 200), 0);
    learned::add(&learned, 1, 7, 300, 250);
    assert!(learned::find(&learned, 1, 7, 299), "learnt again");
}

#[test]
fn who_ends_first_makes_room() {
    let learned = learned::make(8);
    for address in 0..8 {
        assert!(!learned::add(&learned, 1, address, 100 + address as u64, 0));
    }
    assert_eq!(learned::count(&learned, 0), 8);
    assert!(learned::add(&learned, 1, 8, 500, 0));
    assert!(!learned::find(&learned, 1, 0, 0));
    assert!((1..9).all(|address| learned::find(&learned, 1, address, 0)));
    // An expired entry is replaced without an eviction.
    assert!(!learned::add(&learned, 1, 9, 500, 101));
    assert!(!learned::find(&learned, 1, 1, 0));
    for address in 0..MORE {
        learned::add(&learned, 1, address, 1000, 0);
        assert!(learned::find(&learned, 1, address, 0));
    }
    assert_eq!(learned::count(&learned, 0), 8);
}

#[test]
fn what_is_known_is_told_by_places() {
    let learned = learned::make(ROOM);
    let address = 5 << 64 | 7;
    learned::add(&learned, 3, address, 100, 0);
    learned::add(&learned, 4, 7, 50, 0);
    let places = learned::places(&learned);
    assert!(places >= ROOM);
    let found: Vec<_> = (0..places)
        .filter_map(|place| learned::at(&learned, place, 50))
        .collect();
    let expected = LearnedAddress {
        set: 3,
        address,
        end_ns: 100,
    };
    assert_eq!(found, [expected]);
    assert_eq!(learned::at(&learned, places, 50), None);
    learned::forget_all(&learned);
    assert_eq!(learned::count(&learned, 0), 0);
    assert!(!learned::find(&learned, 3, address, 0));
    learned::add(&learned, 3, address, 100, 0);
    assert!(learned::find(&learned, 3, address, 99));
}

/// Checks that an address is found while other addresses of its bucket are replaced, and that no address is found that
/// was never added.
#[test]
fn who_looks_sees_what_is_there() {
    let learned = learned::make(8);
    let is_over = AtomicBool::new(false);
    learned::add(&learned, 1, u128::MAX, u64::MAX, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Each half of an address is the number of its set, so that the reader detects a mixed address.
            for round in 0..ROUNDS {
                let set = round % 7 + 2;
                learned::add(&learned, set as u64, set << 64 | set, 10 + round as u64, 0);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            assert!(learned::find(&learned, 1, u128::MAX, 0));
            assert!(!learned::find(&learned, 2, 2 << 64 | 3, 0));
            assert!(!learned::find(&learned, 3, 2 << 64 | 2, 0));
        }
    });
}
