// SPDX-License-Identifier: GPL-2.0-or-later
//! Behaviour of generic netlink libraries on faults, in the virtual machine: the C libraries, and others that are
//! built.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{ensure, Context};
use testbed::skip::skip;
use testbed::twin::root;

use super::machine::{make, CANNOT_RUN};

const PROGRAMS: [&str; 4] = ["raw", "mnl", "libnl", "libnl-ack"];

/// Returns the program of a line `FAULT PROGRAM: OUTCOME`.
fn program(line: &str) -> &str {
    let program = line.split_whitespace().nth(1).unwrap_or_default();
    program.trim_end_matches(':')
}

/// Checks that kernel/faults/run prints the lines of kernel/faults/expected for the programs that are built.
pub fn libraries_take_faults_as_expected() -> anyhow::Result<()> {
    let programs = PROGRAMS.iter().map(|name| format!("bin/genl-c-{name}"));
    let targets: Vec<String> = programs.chain(["faults".to_owned()]).collect();
    make(&targets)?;
    let folder = root().join("kernel/faults");
    let output = Command::new(folder.join("run")).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT_RUN) {
        return Err(skip(errors));
    }
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{said}{errors}");
    let expected = fs::read_to_string(folder.join("expected")).context("kernel/faults/expected")?;
    let built: BTreeSet<&str> = said.lines().map(program).collect();
    ensure!(built.len() >= PROGRAMS.len(), "{said}{errors}");
    let expected = expected
        .lines()
        .filter(|line| built.contains(program(line)));
    let (expected, said): (Vec<&str>, Vec<&str>) = (expected.collect(), said.lines().collect());
    ensure!(said == expected, "said: {said:#?}\nexpected: {expected:#?}");
    Ok(())
}
