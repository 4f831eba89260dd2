// SPDX-License-Identifier: GPL-2.0-or-later
//! What a decision costs, without kernel and queue: prints `NAME NANOSECONDS` for each policy. With `CASE ROUNDS` it
//! decides all packets so often by one policy and prints nothing, for who counts instructions. The C twin's
//! bench/micro.c does the same with the same policies and packets.

mod cases;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cases::{decide_all, make_bytes, make_inputs, make_packets, make_subject, Subject, CASES};
use rust_firewall::engine::types::DecideInput;

/// That a case is measured for, after as long to warm up.
const CASE: Duration = Duration::from_millis(60);

/// Nanoseconds a decision, over as many rounds as fit into CASE.
fn measure(subject: &Subject, inputs: &[DecideInput]) -> f64 {
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        black_box(decide_all(subject, inputs));
        rounds += 1;
        let passed = start.elapsed();
        if passed >= CASE {
            return passed.as_nanos() as f64 / (rounds * inputs.len()) as f64;
        }
    }
}

/// Decides by one policy as often as asked for.
fn repeat(name: &str, rounds: u32, inputs: &[DecideInput]) {
    for case in CASES.iter().filter(|case| case.name == name) {
        let subject = make_subject(case);
        for _ in 0..rounds {
            black_box(decide_all(&subject, inputs));
        }
    }
}

fn main() {
    let bytes = make_bytes();
    let packets = make_packets(&bytes);
    let inputs = make_inputs(&packets);
    let words: Vec<String> = std::env::args().collect();
    // Cargo starts a benchmark with `--bench`.
    if let [_, name, rounds] = &words[..] {
        repeat(name, rounds.parse().expect("a number of rounds"), &inputs);
        return;
    }
    for case in &CASES {
        let subject = make_subject(case);
        measure(&subject, &inputs);
        println!("{} {:.2}", case.name, measure(&subject, &inputs));
    }
}
