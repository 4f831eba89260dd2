// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts instructions per decision for both twins: a measure without noise, independent of the machine's load.
//!
//! valgrind counts the instructions of the micro-benchmark under one policy; two runs with different numbers of rounds
//! differ only in the number of decisions. A file stores the counts for given compilers. A count above the stored count
//! plus a margin is a slowdown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{anyhow, bail, ensure, Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use testbed::skip::skip;

use crate::metadata::version_of;
use crate::micro;
use crate::table::{aligned, number};

/// Number of packets that a round of the micro-benchmark decides.
const PACKETS: f64 = 512.0;
const ROUNDS: u32 = 8;
/// Case without a count: its table has a randomly drawn key, so the lookups of two runs differ.
const UNCOUNTED: &str = "names-lookup";
/// Share by which a count may exceed the stored count.
const ROOM: f64 = 0.05;
const HEAD: &str = "\
# SPDX-License-Identifier: GPL-2.0-or-later
# Instructions a decision, by policy (harness/src/instructions.rs). `make instructions` fails where one is 5 % above.
# `make instructions WRITE=yes` writes the file anew.
";

#[derive(Args)]
pub struct InstructionsArguments {
    /// The micro-benchmark of the Rust twin
    #[arg(long, value_name = "PATH", default_value = "build/rust-micro")]
    rust: PathBuf,
    /// The micro-benchmark of the C twin
    #[arg(long, value_name = "PATH", default_value = "build/c/micro")]
    c: PathBuf,
    /// Limits for the counts
    #[arg(long, value_name = "PATH", default_value = "harness/instructions.toml")]
    file: PathBuf,
    /// Write the file instead
    #[arg(long)]
    write: bool,
}

/// Instructions per decision, by policy.
type Counts = BTreeMap<String, f64>;

/// Contents of the file: counts, and the compilers of the counted programs.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    rustc: String,
    cc: String,
    rust: Counts,
    c: Counts,
}

/// Counts the instructions of both twins, prints a table, and compares the counts with the file, or writes the file
/// (`write`). Fails if a count is too high. Skips if valgrind is missing or the compilers differ from those of the
/// file.
pub fn run(arguments: &InstructionsArguments) -> Result<()> {
    if version_of("valgrind", "--version") == "not found" {
        return Err(skip("valgrind is not installed: make deps"));
    }
    let count = |program: &Path| counts(program);
    let (rust, c) = thread::scope(|scope| {
        let rust = scope.spawn(|| count(&arguments.rust));
        (rust.join(), count(&arguments.c))
    });
    let found = Kept {
        rustc: version_of("rustc", "--version"),
        cc: version_of("cc", "--version"),
        rust: rust.map_err(|_| anyhow!("the thread of the Rust twin panicked"))??,
        c: c?,
    };
    print!("{}", table(&found));
    if arguments.write {
        let text = format!("{HEAD}{}", toml::to_string(&found)?);
        return fs::write(&arguments.file, text)
            .with_context(|| arguments.file.display().to_string());
    }
    let shown = || arguments.file.display().to_string();
    let text = fs::read_to_string(&arguments.file).with_context(shown)?;
    let kept: Kept = toml::from_str(&text).with_context(shown)?;
    for (of, kept, found) in [
        ("rustc", &kept.rustc, &found.rustc),
        ("cc", &kept.cc, &found.cc),
    ] {
        if kept != found {
            let words = format!("the counts were made with {kept}, but {of} here is {found}");
            return Err(skip(words));
        }
    }
    let more = more_than_kept(&kept, &found)?;
    ensure!(
        more.is_empty(),
        "more instructions than in {}: {}: if that is wanted, make instructions WRITE=yes",
        arguments.file.display(),
        more.join("; ")
    );
    Ok(())
}

/// Returns the counts for all policies that the program lists, except UNCOUNTED.
fn counts(program: &Path) -> Result<Counts> {
    let cases = micro::cases(program)?.into_iter();
    let cases = cases.filter(|name| name != UNCOUNTED);
    let count = |name: String| {
        let (once, often) = (
            executed(program, &name, 1)?,
            executed(program, &name, 1 + ROUNDS)?,
        );
        let each = (often - once) / (f64::from(ROUNDS) * PACKETS);
        // Further digits would change with every build.
        Ok((name, (10.0 * each).round() / 10.0))
    };
    cases.map(count).collect()
}

/// Returns the number of instructions that the program executes.
fn executed(program: &Path, case: &str, rounds: u32) -> Result<f64> {
    let output = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(program)
        .args([case, &rounds.to_string()])
        .output()
        .context("valgrind could not be started: run make deps")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} {case}: {}", program.display(), said.trim());
    }
    parse(&said).with_context(|| format!("valgrind gave no count: {said}"))
}

/// Parses valgrind's output: the count in a line like `==123== I   refs:      1,234,567`.
fn parse(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("refs:"))?;
    let (_, count) = line.split_once("refs:")?;
    count.trim().replace(',', "").parse().ok()
}

/// Returns a line of text for each count that exceeds its stored count by more than ROOM. Fails if the sets of policies
/// differ.
/// - kept: stored counts.
fn more_than_kept(kept: &Kept, found: &Kept) -> Result<Vec<String>> {
    let mut more = Vec::new();
    for (twin, kept, found) in [("Rust", &kept.rust, &found.rust), ("C", &kept.c, &found.c)] {
        let names = |of: &Counts| of.keys().cloned().collect::<Vec<_>>();
        ensure!(
            names(kept) == names(found),
            "the file has other policies ({}): make instructions WRITE=yes",
            names(kept).join(", ")
        );
        for (name, found) in found {
            if *found > kept[name] * (1.0 + ROOM) {
                more.push(format!("{twin}, {name}: {found}, not {}", kept[name]));
            }
        }
    }
    Ok(more)
}

fn table(found: &Kept) -> String {
    let head = ["instructions a decision", "Rust", "C", "Rust / C"].map(String::from);
    let row = |(name, rust): (&String, &f64)| {
        let c = found.c.get(name).copied().unwrap_or(f64::NAN);
        vec![
            name.clone(),
            number(*rust),
            number(c),
            format!("{:.2}", rust / c),
        ]
    };
    let rows: Vec<Vec<String>> = found.rust.iter().map(row).collect();
    aligned(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rust: f64, c: f64) -> Kept {
        let counts = |value| Counts::from([("ten".to_string(), value)]);
        Kept {
            rustc: "rustc 1".into(),
            cc: "cc 1".into(),
            rust: counts(rust),
            c: counts(c),
        }
    }

    #[test]
    fn only_what_is_above_by_more_than_the_room_is_told() {
        let more = |rust, c| more_than_kept(&kept(100.0, 200.0), &kept(rust, c)).unwrap();
        assert_eq!(more(105.0, 150.0), Vec::<String>::new());
        assert_eq!(more(105.1, 200.0), ["Rust, ten: 105.1, not 100"]);
        assert_eq!(more(90.0, 211.0), ["C, ten: 211, not 200"]);
        let mut other = kept(1.0, 1.0);
        other.c.clear();
        assert!(more_than_kept(&other, &kept(1.0, 1.0)).is_err());
    }

    #[test]
    fn the_file_comes_back_as_it_was_written() {
        let text = format!("{HEAD}{}", toml::to_string(&kept(1.5, 2.0)).unwrap());
        assert_eq!(toml::from_str::<Kept>(&text).unwrap(), kept(1.5, 2.0));
    }

    #[test]
    fn valgrinds_count_is_read() {
        let said = "==7== Cachegrind\n==7== \n==7== I   refs:      1,234,567\n";
        assert_eq!(parse(said), Some(1_234_567.0));
        assert_eq!(parse("==7== nothing"), None);
    }
}
