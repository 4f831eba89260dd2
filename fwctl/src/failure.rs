// SPDX-License-Identifier: GPL-2.0-or-later
//! How the tool ends: one line "error: CAUSE: CURE" on stderr, and an exit code.

use std::fmt::Display;
use std::io::Write;

use crate::output::printable;

/// Exit codes; the text of --help names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Fine = 0,
    /// What was asked for was found, and it is not well: a ledger, flows that flip, findings.
    Findings = 1,
    /// Bad command line, policy or capture.
    Usage = 2,
    /// No firewall could be asked.
    Unreachable = 3,
    /// The firewall refused or failed, or is not understood.
    Refused = 4,
}

/// Why the tool cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    /// "CAUSE: CURE", without "error: " and without a line end.
    pub text: String,
}

impl Failure {
    pub fn new(exit: Exit, text: impl Display) -> Failure {
        Failure {
            exit,
            text: text.to_string(),
        }
    }
}

/// The failures of the library, which are about command lines, policies and captures.
impl From<rust_firewall::base::log::Failure> for Failure {
    fn from(failure: rust_firewall::base::log::Failure) -> Failure {
        Failure::new(Exit::Usage, failure.text)
    }
}

/// Prints a line on stderr. Nobody may be reading there any more, which is no reason to end.
pub fn tell(kind: &str, text: impl Display) {
    let text = printable(&text.to_string());
    let _ = std::io::stderr().write_all(format!("{kind}: {text}\n").as_bytes());
}

/// The system's text for an error, without its number.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
