// SPDX-License-Identifier: GPL-2.0-or-later
//! What a decision costs, without kernel and queue: prints `NAME NANOSECONDS` for each policy, for each kind of client that
//! shows a name, and for a name among a million. With `CASE ROUNDS` it does one of them as often as asked for and prints
//! nothing, for who counts instructions. The C twin's bench/micro.c does the same.

mod cases;
mod names;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cases::{decide_all, make_bytes, make_inputs, make_packets, make_subject, CASES, PACKETS};
use names::lookup;

/// That a case is measured for, after as long to warm up.
const CASE: Duration = Duration::from_millis(60);
const LOOKUP: &str = "names-lookup";

/// What is done with a case.
enum Task {
    /// It is measured, and its name and nanoseconds are printed.
    Print,
    /// So many rounds of one case are done.
    Repeat(String, u32),
}

/// Nanoseconds of each in a round, over as many rounds as fit into CASE.
fn measure(round: &mut impl FnMut() -> u32) -> f64 {
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        black_box(round());
        rounds += 1;
        let passed = start.elapsed();
        if passed >= CASE {
            return passed.as_nanos() as f64 / (rounds * PACKETS) as f64;
        }
    }
}

/// Does what is asked for with a case. make: gives its rounds.
fn run<Round: FnMut() -> u32>(task: &Task, name: &str, make: impl FnOnce() -> Round) {
    match task {
        Task::Print => {
            let mut round = make();
            measure(&mut round);
            println!("{name} {:.2}", measure(&mut round));
        }
        Task::Repeat(asked, rounds) if asked == name => {
            let mut round = make();
            for _ in 0..*rounds {
                black_box(round());
            }
        }
        Task::Repeat(..) => {}
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    // Cargo starts a benchmark with `--bench`.
    let task = match &words[..] {
        [_, name, rounds] => {
            let rounds = rounds.parse().expect("a number of rounds");
            Task::Repeat(name.clone(), rounds)
        }
        _ => Task::Print,
    };
    let bytes = make_bytes();
    let packets = make_packets(&bytes);
    let inputs = make_inputs(&packets);
    for case in &CASES {
        run(&task, case.name, || {
            let subject = make_subject(case);
            let inputs = &inputs;
            move || decide_all(&subject, inputs)
        });
    }
    for case in &names::CASES {
        run(&task, case.name, || {
            let mut subject = names::make(case);
            move || names::round(&mut subject)
        });
    }
    run(&task, LOOKUP, || {
        let mut lookups = lookup::make();
        move || lookup::round(&mut lookups)
    });
}
