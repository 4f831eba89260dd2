// SPDX-License-Identifier: GPL-2.0-or-later
//! What a decision costs, without kernel and queue: by each policy, by each kind of client that shows a name, and for a name
//! among a million. Without arguments it prints the names of these cases. With `CASE` it measures a slice of a case for each line
//! that it reads, and prints its nanoseconds, for who compares programs in turn. With `CASE ROUNDS` it does a case as often as
//! asked for and prints nothing, for who counts instructions. The C twin's bench/micro.c does the same.

mod cases;
mod names;

use std::hint::black_box;
use std::io::stdin;
use std::time::{Duration, Instant};

use nix::time::{clock_gettime, ClockId};

use cases::{decide_all, make_bytes, make_inputs, make_packets, make_subject, CASES, PACKETS};
use names::lookup;

/// Before a slice counts: what others did meanwhile has taken the caches.
const SETTLE: Duration = Duration::from_millis(1);
/// That a slice is measured for.
const SLICE: Duration = Duration::from_millis(5);
const LOOKUP: &str = "names-lookup";

/// Actions for cases.
enum Task {
    /// The name of each is printed.
    List,
    /// One is measured in slices.
    Slices(String),
    /// So many rounds of one are done.
    Repeat(String, u32),
}

impl Task {
    /// Whether anything is to be done with a case but to name it.
    fn is_of(&self, name: &str) -> bool {
        match self {
            Task::List => false,
            Task::Slices(asked) | Task::Repeat(asked, _) => asked == name,
        }
    }
}

/// CPU time of this thread, which others that run meanwhile don't lengthen.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.expect("every kernel has this clock").into()
}

/// Nanoseconds of CPU of each in a round, over as many rounds as fit into a time.
fn measure(time: Duration, round: &mut impl FnMut() -> u32) -> f64 {
    let (start, cpu_start) = (Instant::now(), cpu_time());
    let mut rounds = 0;
    while start.elapsed() < time {
        black_box(round());
        rounds += 1;
    }
    let passed = cpu_time() - cpu_start;
    passed.as_nanos() as f64 / (rounds * PACKETS) as f64
}

/// Does what is asked for with a case. make: gives its rounds.
fn run<Round: FnMut() -> u32>(task: &Task, name: &str, make: impl FnOnce() -> Round) {
    if let Task::List = task {
        println!("{name}");
    }
    if !task.is_of(name) {
        return;
    }
    let mut round = make();
    match task {
        Task::Repeat(_, rounds) => {
            for _ in 0..*rounds {
                black_box(round());
            }
        }
        _ => {
            for _ in stdin().lines() {
                measure(SETTLE, &mut round);
                println!("{:.3}", measure(SLICE, &mut round));
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let task = match &words[..] {
        [_, name, rounds] => {
            let rounds = rounds.parse().expect("a number of rounds");
            Task::Repeat(name.clone(), rounds)
        }
        // Cargo starts a benchmark with `--bench`.
        [_, name] if name != "--bench" => Task::Slices(name.clone()),
        _ => Task::List,
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
