// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the twins' micro-benchmarks: the cost of a decision without kernel and queue.
//!
//! Each twin has a program that measures a case in slices of some milliseconds, one slice per input line. The C
//! program, the Rust program and a second copy of the Rust program run in turn, in an order that rotates: a disturbance
//! of the machine lasts longer than a slice, so it affects all slices of a round.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{ensure, Context, Result};
use clap::Args;

use crate::finding::Comparison;
use crate::interrupt;
use crate::statistics::{interval_in_words, median_interval, ratio_interval, Interval};
use crate::table::{aligned, number};

/// Number of rounds that are discarded at the start.
const WARM_UP: u32 = 3;

#[derive(Args)]
pub struct MicroArguments {
    /// The program of the Rust twin
    #[arg(long, value_name = "PATH", default_value = "build/rust-micro")]
    rust: PathBuf,
    /// The program of the C twin
    #[arg(long, value_name = "PATH", default_value = "build/c/micro")]
    c: PathBuf,
    /// Number of rounds per case; in each round, each program measures the case once
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    rounds: u32,
}

/// Number of programs: Rust, C, and Rust again.
const PROGRAMS: usize = 3;

/// Results of one case: the nanoseconds per decision of each program, by round.
struct Case {
    name: String,
    rounds: Vec<[f64; PROGRAMS]>,
}

/// A program that measures a case.
struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Program {
    fn start(path: &Path, case: &str) -> Result<Program> {
        let mut child = Command::new(path)
            .arg(case)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| missing(path))?;
        let said = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Program { child, said })
    }

    /// Measures one more slice and returns its nanoseconds per decision.
    fn slice(&mut self) -> Result<f64> {
        let input = self.child.stdin.as_mut().context("stdin is piped")?;
        writeln!(input)?;
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        let nanoseconds: f64 = line.trim().parse().with_context(|| format!("{line:?}"))?;
        ensure!(nanoseconds > 0.0, "{nanoseconds} ns");
        Ok(nanoseconds)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program ends at the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn missing(path: &Path) -> String {
    format!(
        "{} could not be started: make micro builds it",
        path.display()
    )
}

/// Returns the cases of a micro-benchmark.
pub fn cases(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program)
        .output()
        .with_context(|| missing(program))?;
    let names: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect();
    ensure!(
        output.status.success() && !names.is_empty(),
        "{}: {}, and no names of cases",
        program.display(),
        output.status
    );
    Ok(names)
}

/// Measures all cases and prints a table: medians with their intervals, and the ratios of the rounds.
pub fn run(arguments: &MicroArguments) -> Result<()> {
    let MicroArguments { rust, c, rounds } = arguments;
    let names = cases(rust)?;
    let others = cases(c)?;
    ensure!(
        names == others,
        "the programs don't have the same cases: {names:?} and {others:?}"
    );
    let measured: Result<Vec<Case>> = names
        .into_iter()
        .map(|name| measure([rust, c, rust], name, *rounds))
        .collect();
    print!("{}", table(&measured?));
    let intervals = interval_in_words(*rounds as usize);
    println!(
        "\n  Median ({intervals}); ratios: median of the ratios of the same round. A/A: the Rust program again. A difference is\n  \
         shown where the interval of Rust / C leaves 1 out and its median is further from 1 than A/A reaches."
    );
    Ok(())
}

/// Measures one case with programs that stay running; only one works at a time.
fn measure(paths: [&PathBuf; PROGRAMS], name: String, count: u32) -> Result<Case> {
    let programs: Result<Vec<Program>> = paths
        .iter()
        .map(|path| Program::start(path, &name))
        .collect();
    let mut programs = programs?;
    let mut slice = |which: usize| {
        programs[which]
            .slice()
            .with_context(|| format!("{} {name}", paths[which].display()))
    };
    let mut rounds = Vec::new();
    for round in 0..WARM_UP + count {
        interrupt::check()?;
        let mut values = [0.0; PROGRAMS];
        for which in order(round) {
            values[which] = slice(which)?;
        }
        if round >= WARM_UP {
            rounds.push(values);
        }
    }
    Ok(Case { name, rounds })
}

/// Returns the order of the programs' slices. Over the rounds each program is first equally often, and follows each
/// other program equally often.
fn order(round: u32) -> [usize; PROGRAMS] {
    let mut order = [0, 1, 2];
    order.rotate_left(round as usize % PROGRAMS);
    if round as usize / PROGRAMS % 2 == 1 {
        order.reverse();
    }
    order
}

fn table(cases: &[Case]) -> String {
    let head = ["ns a decision", "Rust", "C", "Rust / C", "A/A", "shown"].map(String::from);
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    aligned(&head, &rows)
}

fn row(case: &Case) -> Vec<String> {
    let column = |which: usize| {
        let values: Vec<f64> = case.rounds.iter().map(|round| round[which]).collect();
        spread(median_interval(&values), number)
    };
    let ratio = |a: usize, b: usize| {
        let pairs: Vec<(f64, f64)> = case
            .rounds
            .iter()
            .map(|round| (round[a], round[b]))
            .collect();
        ratio_interval(&pairs)
    };
    let (twins, noise) = (ratio(0, 1), ratio(2, 0));
    let comparison = Comparison {
        a: "Rust",
        b: "C",
        metric: "cost",
        rounds: case.rounds.len(),
        ratio: twins,
        noise,
    };
    let shown = |ratio: Option<Interval>| {
        ratio.map_or(String::new(), |ratio| {
            spread(ratio, |value| format!("{value:.3}"))
        })
    };
    vec![
        case.name.clone(),
        column(0),
        column(1),
        shown(twins),
        shown(noise),
        match comparison.shows_difference() {
            true => "yes".into(),
            false => "no".into(),
        },
    ]
}

fn spread(interval: Interval, text: fn(f64) -> String) -> String {
    let Interval {
        estimate,
        low,
        high,
    } = interval;
    format!("{} ({} to {})", text(estimate), text(low), text(high))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_order_comes_as_often() {
        let orders: BTreeSet<_> = (0..6).map(order).collect();
        assert_eq!(orders.len(), 6);
        assert_eq!(order(6), order(0));
    }

    #[test]
    fn a_program_is_asked_for_each_slice() {
        let folder = testbed::folder::Folder::new().unwrap();
        let script = folder.write(
            "script",
            "#!/bin/sh\nwhile read line; do echo \"$1\"; done\n",
        );
        let file = PathBuf::from(folder.file("micro"));
        // A child that another test starts could keep a file that this process writes open (ETXTBSY): cp(1) writes it.
        let mut copy = std::process::Command::new("cp");
        let copied = copy.arg(script.unwrap()).arg(&file).status().unwrap();
        assert!(copied.success());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&file, mode).unwrap();
        let case = measure([&file; 3], "2.5".into(), 6).unwrap();
        assert_eq!(case.rounds, [[2.5; 3]; 6]);
        for wrong in ["x", "0", "nan", ""] {
            assert!(measure([&file; 3], wrong.into(), 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slices_are_compared_in_the_same_round() {
        let rounds = (1..=20).map(f64::from);
        let case = Case {
            name: "a".into(),
            rounds: rounds
                .map(|speed| [1.5 * speed, speed, 1.5 * speed])
                .collect(),
        };
        let row = row(&case);
        assert!(row[1].starts_with("15.8 ("), "{row:?}");
        assert_eq!(row[3], "1.500 (1.500 to 1.500)");
        assert_eq!(row[4], "1.000 (1.000 to 1.000)");
        assert_eq!(row[5], "yes");
    }
}
