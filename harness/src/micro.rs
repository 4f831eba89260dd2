// SPDX-License-Identifier: GPL-2.0-or-later
//! The micro-benchmarks of the twins against each other: what a decision costs without kernel and queue.
//!
//! Each twin has a program that prints a line `NAME NANOSECONDS` for each case. Both are run in turn, round after round,
//! so that a drift of the machine meets both.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;

use crate::statistics::{interval_in_words, median_interval, ratio_interval, Interval};
use crate::table::{aligned, number};

#[derive(Args)]
pub struct MicroArguments {
    /// The program of the Rust twin
    #[arg(long, value_name = "PATH", default_value = "build/rust-micro")]
    rust: PathBuf,
    /// The program of the C twin
    #[arg(long, value_name = "PATH", default_value = "build/c/micro")]
    c: PathBuf,
    /// How often each is run
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// One case of both programs.
#[derive(Debug, PartialEq)]
struct Case {
    name: String,
    /// Nanoseconds of (Rust, C) by round.
    rounds: Vec<(f64, f64)>,
}

/// Runs both and prints a table: medians with their intervals, and the ratio of the rounds.
pub fn run(arguments: &MicroArguments) -> Result<()> {
    let programs = [&arguments.rust, &arguments.c];
    let cases = rounds(arguments.rounds, |which| measure(programs[which]))?;
    print!("{}", table(&cases));
    let intervals = interval_in_words(arguments.rounds as usize);
    println!("\n  median ({intervals}); Rust / C: median of the ratios of the same round");
    Ok(())
}

/// Measures Rust (0) and C (1) in turn; which comes first changes from round to round.
fn rounds(
    count: u32,
    mut measure: impl FnMut(usize) -> Result<Vec<(String, f64)>>,
) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for round in 0..count {
        let first = (round % 2) as usize;
        let mut lines = [measure(first)?, measure(1 - first)?];
        if first == 1 {
            lines.reverse();
        }
        add_round(&mut cases, &lines[0], &lines[1])?;
    }
    Ok(cases)
}

/// Runs a micro-benchmark and gives the nanoseconds a decision of each of its policies.
pub fn measure(program: &Path) -> Result<Vec<(String, f64)>> {
    let missing = || {
        format!(
            "{} could not be started: make micro builds it",
            program.display()
        )
    };
    let output = Command::new(program).output().with_context(missing)?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} ({}): {}",
        program.display(),
        output.status,
        words.trim()
    );
    parse(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("the output of {}", program.display()))
}

fn parse(text: &str) -> Result<Vec<(String, f64)>> {
    let line = |line: &str| {
        let (name, value) = line.trim_end().rsplit_once(char::is_whitespace)?;
        let nanoseconds: f64 = value.parse().ok()?;
        (nanoseconds > 0.0).then(|| (name.trim_end().to_string(), nanoseconds))
    };
    let lines: Option<Vec<_>> = text.lines().map(line).collect();
    match lines {
        Some(lines) if !lines.is_empty() => Ok(lines),
        _ => bail!("expected lines `NAME NANOSECONDS`, found {text:?}"),
    }
}

fn add_round(cases: &mut Vec<Case>, rust: &[(String, f64)], c: &[(String, f64)]) -> Result<()> {
    let names = |of: &[(String, f64)]| of.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    ensure!(
        names(rust) == names(c),
        "the programs don't have the same cases: {:?} and {:?}",
        names(rust),
        names(c)
    );
    if cases.is_empty() {
        cases.extend(names(rust).into_iter().map(|name| Case {
            name,
            rounds: Vec::new(),
        }));
    }
    ensure!(
        cases.len() == rust.len(),
        "a round has {} cases and another {}",
        rust.len(),
        cases.len()
    );
    for (case, (rust, c)) in cases.iter_mut().zip(rust.iter().zip(c)) {
        case.rounds.push((rust.1, c.1));
    }
    Ok(())
}

fn table(cases: &[Case]) -> String {
    let head = ["ns a decision", "Rust", "C", "Rust / C"].map(String::from);
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    aligned(&head, &rows)
}

fn row(case: &Case) -> Vec<String> {
    let spread = |Interval {
                      estimate,
                      low,
                      high,
                  }: Interval,
                  text: fn(f64) -> String| {
        format!("{} ({} to {})", text(estimate), text(low), text(high))
    };
    let (rust, c): (Vec<f64>, Vec<f64>) = case.rounds.iter().copied().unzip();
    let ratio = ratio_interval(&case.rounds).map(|ratio| spread(ratio, |x| format!("{x:.2}")));
    vec![
        case.name.clone(),
        spread(median_interval(&rust), number),
        spread(median_interval(&c), number),
        ratio.unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(String, f64)> {
        parse(text).unwrap()
    }

    #[test]
    fn a_line_is_a_name_and_a_number() {
        assert_eq!(
            lines("ten rules      41.5\nset 100000 7\n"),
            [
                ("ten rules".to_string(), 41.5),
                ("set 100000".to_string(), 7.0)
            ]
        );
        for text in ["", "x\n", "x 1\ny\n", "x nan\n", "x 0\n", "x 1 ns\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn neither_comes_first_always() {
        let mut order = Vec::new();
        let measured = rounds(3, |which| {
            order.push(which);
            Ok(vec![("a".to_string(), [3.0, 2.0][which])])
        });
        assert_eq!(measured.unwrap()[0].rounds, [(3.0, 2.0); 3]);
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn rounds_are_paired_case_by_case() {
        let mut cases = Vec::new();
        for speed in [10.0, 20.0, 40.0] {
            let rust = lines(&format!("a {}\nb {}\n", speed * 1.5, speed));
            let c = lines(&format!("a {speed}\nb {speed}\n"));
            add_round(&mut cases, &rust, &c).unwrap();
        }
        let text = table(&cases);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].trim_start().starts_with("a "), "{text}");
        assert!(rows[1].ends_with("1.50 (1.50 to 1.50)"), "{text}");
        assert!(rows[2].contains("20.0 (10.0 to 40.0)"), "{text}");
        assert!(add_round(&mut cases, &lines("a 1\n"), &lines("b 1\n")).is_err());
        assert!(add_round(&mut cases, &lines("a 1\n"), &lines("a 1\n")).is_err());
    }
}
