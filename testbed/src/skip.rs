// SPDX-License-Identifier: GPL-2.0-or-later
//! An error that marks a test as skipped: the machine lacks a requirement that can't be installed.

use std::fmt;

/// Reason for skipping, in one line.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Returns an error for a requirement that this machine or its kernel lacks. The test runner finds the [`Skip`] in it
/// and counts the test as skipped, with the reason.
pub fn skip(reason: impl Into<String>) -> anyhow::Error {
    // One line, since the runner prints it in one line.
    anyhow::Error::new(Skip(reason.into().replace('\n', " ")))
}

/// Returns an error for a missing program of deps/debian.txt. The test fails: `make deps` installs the program, and a
/// skipped test would hide that it did not. Programs of systemd are missing on a machine with another init, so the test
/// is skipped.
pub fn not_installed(program: &str) -> anyhow::Error {
    match program.starts_with("systemd-") {
        true => skip(format!("this machine has no {program}")),
        false => anyhow::anyhow!("{program} is not installed: make deps"),
    }
}
