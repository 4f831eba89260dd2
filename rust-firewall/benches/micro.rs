// SPDX-License-Identifier: GPL-2.0-or-later
//! Benchmark of decisions without kernel and queue. The cases are policies, kinds of clients that show a name, and the
//! search for a name among a million names. Without arguments, prints the names of the cases. With `CASE`, measures a
//! slice of time for each line on stdin and prints the nanoseconds per packet, client or name, so that programs can be
//! compared in turn. With `CASE ROUNDS`, executes this number of rounds and prints nothing, so that instructions can be
//! counted. The C twin's bench/micro.c does the same.

mod cases;
mod names;

use std::hint::black_box;
use std::io::stdin;
use std::time::{Duration, Instant};

use nix::time::{clock_gettime, ClockId};

use cases::{decide_all, make_bytes, make_inputs, make_packets, make_subject, CASES, PACKETS};
use names::lookup;

/// Duration of an unmeasured run before each slice. It fills the processor's caches, which other programs may have used
/// meanwhile.
const SETTLE: Duration = Duration::from_millis(1);
/// Duration of a slice: the measurement for one line on stdin.
const SLICE: Duration = Duration::from_millis(5);
const LOOKUP: &str = "names-lookup";

/// Task that the command line requests.
enum Task {
    /// Prints the name of each case.
    List,
    /// Measures a case in slices.
    Slices(String),
    /// Executes a number of rounds of a case.
    Repeat(String, u32),
}

impl Task {
    /// Returns true if the task executes a case.
    fn is_of(&self, name: &str) -> bool {
        match self {
            Task::List => false,
            Task::Slices(asked) | Task::Repeat(asked, _) => asked == name,
        }
    }
}

/// Returns the CPU time of this thread. Unlike elapsed time, it does not grow while other threads run.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.expect("every kernel has this clock").into()
}

/// Executes as many rounds of a case as fit into a time. Each round has PACKETS packets, clients or names. Returns the
/// CPU time for one of them in nanoseconds.
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

/// Executes the task for a case.
/// - make: returns the function that executes a round.
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
