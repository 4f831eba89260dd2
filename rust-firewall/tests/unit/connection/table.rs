// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the table with a list that is searched sequentially, and tests the records of forgotten connections.

use crate::support::engine::Random;
use rust_firewall::connection::table;
use rust_firewall::connection::{ConnectionKey, ConnectionList, Table, SLOT_NONE};

const ROUNDS: u32 = 20_000;
const ROOM: u32 = 40;
const KEYS: u32 = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// Returns the key of a number. The table hashes it like an IPv4 key for an even number (words 2 to 4 are 0), otherwise
/// like an IPv6 key.
fn key_of(number: u32) -> ConnectionKey {
    let last = u64::from(number % 2);
    [1, number.into(), 0, 0, last]
}

/// Returns the keys of a list, the oldest first.
fn keys_of(table: &mut Table, list: ConnectionList) -> Vec<ConnectionKey> {
    let mut keys = Vec::new();
    let mut slot = table.lists[list as usize].oldest;
    while slot != SLOT_NONE {
        let connection = table::at(table, slot);
        keys.push(connection.key);
        slot = connection.newer;
    }
    keys
}

#[test]
fn connections_are_found_and_stand_in_their_order() {
    let lists = [ConnectionList::Opening, ConnectionList::Known];
    let mut random = Random(3);
    let mut table = table::make(ROOM);
    let mut expected: [Vec<ConnectionKey>; 2] = Default::default();
    for round in 0..ROUNDS {
        let key = key_of(random.below(KEYS));
        let list = random.below(2) as usize;
        let is_moved = random.below(2) == 0;
        let hash = table::hash(&table, &key);
        let slot = table::find(&table, &key, hash);
        let is_there = expected.iter().any(|keys| keys.contains(&key));
        assert_eq!(slot != SLOT_NONE, is_there);
        expected.iter_mut().for_each(|keys| {
            if is_there {
                keys.retain(|other| *other != key);
            }
        });
        let count = (expected[0].len() + expected[1].len()) as u32;
        if is_there && !is_moved {
            table::remove(&mut table, slot);
        } else if is_there {
            table::move_to(&mut table, slot, lists[list], round.into());
            expected[list].push(key);
        } else if count < ROOM {
            assert!(!table::is_full(&table));
            table::add(&mut table, &key, hash, lists[list], round.into());
            expected[list].push(key);
        } else {
            assert!(table::is_full(&table));
            let added = table::add(&mut table, &key, hash, lists[list], round.into());
            assert_eq!(added, SLOT_NONE);
        }
        for (list, keys) in lists.iter().zip(&expected) {
            assert_eq!(table.lists[*list as usize].count as usize, keys.len());
            assert_eq!(keys_of(&mut table, *list), *keys);
        }
    }
}

fn hash_of(table: &Table, number: u32) -> u64 {
    table::hash(table, &key_of(number))
}

/// The table records a forgotten connection for 120 s. If far more connections are forgotten than it has room to
/// record, it reports every key as forgotten.
#[test]
fn what_was_forgotten_is_remembered_for_a_while() {
    let mut table = table::make(1);
    let now_ns = 5 * SECOND_NS;
    let hash = hash_of(&table, 1);
    assert!(!table::is_buried(&table, hash, now_ns));
    table::bury(&mut table, hash, now_ns);
    assert!(table::is_buried(&table, hash, now_ns + 119 * SECOND_NS));
    assert!(!table::is_buried(&table, hash, now_ns + 120 * SECOND_NS));
    let is_buried = |table: &Table, number| table::is_buried(table, hash_of(table, number), now_ns);
    let others = (1000..1020).filter(|number| is_buried(&table, *number));
    assert_eq!(others.count(), 0);
    for number in 0..100 {
        let hash = hash_of(&table, number);
        table::bury(&mut table, hash, now_ns);
    }
    assert!((0..200).all(|number| is_buried(&table, number)));
}
