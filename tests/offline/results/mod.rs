// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that each committed result matches its experiment's file, according to `harness verify`.
//!
//! A change of an experiment need not wait for its measurement. Until then `tests/exemptions-results` has a line `NAME
//! reason`. Such a case is skipped, and prints the stale parts.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{ensure, Context};
use testbed::skip::skip;
use testbed::twin::root;
use twinwall_tests::case::Case;

const EXEMPTIONS: &str = "tests/exemptions-results";

/// Result of `make bench-scanner`, which has no experiment's file.
const SCANS: &str = "scanner";

/// Returns a case for each expected result, and a case that checks the names in the exemptions.
pub fn cases() -> Vec<Case> {
    let names = names().expect("the experiments can be listed");
    let case = |name: &String| {
        let name = name.clone();
        Case::new(name.clone(), move || as_its_file_says(&name))
    };
    let mut cases: Vec<Case> = names.iter().map(case).collect();
    cases.push(Case::new("exemptions/are-of-results", move || {
        for (name, _) in exemptions()? {
            ensure!(
                names.contains(&name),
                "{EXEMPTIONS}: there is no result {name}"
            );
        }
        Ok(())
    }));
    cases
}

fn names() -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::from([SCANS.to_string()]);
    for entry in fs::read_dir(root().join("harness/experiments"))? {
        let file = entry?.path();
        let name = file.file_stem().context("a file without a name")?;
        names.insert(name.to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Returns the results that may be stale (lines of tests/exemptions-results), as pairs of name and reason.
fn exemptions() -> anyhow::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root().join(EXEMPTIONS)).context(EXEMPTIONS)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let line = |line: &str| {
        let (name, reason) = line.split_once(' ').context("expected NAME and a reason")?;
        Ok((name.to_string(), reason.to_string()))
    };
    lines.map(line).collect()
}

fn as_its_file_says(name: &str) -> anyhow::Result<()> {
    let output = Command::new(root().join("build/harness"))
        .arg("verify")
        .arg(root().join("result").join(name))
        .output()
        .context("build/harness could not be started: make build")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.trim_end().replace("\n  ", "; ");
    let exempted = exemptions()?.into_iter().find(|(other, _)| other == name);
    match exempted {
        None => ensure!(output.status.success(), "{said}"),
        Some((_, reason)) => {
            ensure!(
                !output.status.success(),
                "it is not stale: take its line out of {EXEMPTIONS}"
            );
            ensure!(output.status.code() == Some(1), "harness verify: {said}");
            return Err(skip(format!("{reason}: {said}")));
        }
    }
    Ok(())
}
