// SPDX-License-Identifier: GPL-2.0-or-later

use std::collections::BTreeSet;
use std::thread;

use rust_firewall::base::counts::{add, get, name, Count, ALL};

const THREADS: u64 = 4;
const ROUNDS: u64 = 10_000;

#[test]
fn every_count_has_a_name_of_its_own() {
    for (index, (count, its_name)) in ALL.into_iter().enumerate() {
        assert_eq!((count as usize, name(count)), (index, its_name));
    }
    let names: BTreeSet<_> = ALL.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), ALL.len());
    assert_eq!(name(Count::Reloads), "reloads");
    assert_eq!(name(Count::UpgradesFailed), "upgrades_failed");
}

#[test]
fn threads_count_together() {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| add(Count::Reloads, 2)));
        }
    });
    assert_eq!(get(Count::Reloads), 2 * THREADS * ROUNDS);
    assert_eq!(get(Count::ReloadsFailed), 0);
}
