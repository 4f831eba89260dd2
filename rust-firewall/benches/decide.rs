// SPDX-License-Identifier: GPL-2.0-or-later
//! Benchmark with divan: decides 512 packets by each policy of `cases`.

mod cases;

use cases::{
    decide_all, make_bytes, make_inputs, make_packets, make_subject, Case, CASES, PACKETS,
};
use divan::counter::ItemsCount;
use divan::Bencher;

fn main() {
    divan::main();
}

#[divan::bench(args = CASES.iter().map(|case| case.name))]
fn decide(bencher: Bencher, name: &str) {
    let is_named = |case: &&Case| case.name == name;
    let subject = make_subject(CASES.iter().find(is_named).expect("a case of this name"));
    let bytes = make_bytes();
    let packets = make_packets(&bytes);
    let inputs = make_inputs(&packets);
    bencher
        .counter(ItemsCount::new(PACKETS))
        .bench_local(|| decide_all(&subject, &inputs));
}
