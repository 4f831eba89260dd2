// SPDX-License-Identifier: GPL-2.0-or-later
//! Failure of the tool: one line "error: CAUSE: CURE" on stderr, and an exit code.

use std::fmt::Display;
use std::io::Write;

use crate::output::printable;

/// Exit codes; the text of --help names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Fine = 0,
    /// The command found a problem, such as a ledger that does not reconcile, a flow whose verdict changes, or a
    /// finding of `doctor`.
    Findings = 1,
    /// Bad command line, policy or capture.
    Usage = 2,
    /// No firewall could be reached.
    Unreachable = 3,
    /// The firewall refused or failed, its reply is unsupported, or the system refused an operation.
    Refused = 4,
}

/// Reason for the tool's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    /// Text "CAUSE: CURE", without "error: " and without a line end.
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

/// Converts failures of the Rust twin's library, which concern command lines, policies and captures: the exit code is
/// Exit::Usage.
impl From<rust_firewall::base::log::Failure> for Failure {
    fn from(failure: rust_firewall::base::log::Failure) -> Failure {
        Failure::new(Exit::Usage, failure.text)
    }
}

/// Prints a line "KIND: TEXT" on stderr. A closed stderr is no reason to end.
/// - kind: "error", "warning" or "note".
pub fn tell(kind: &str, text: impl Display) {
    let text = printable(&text.to_string());
    let _ = std::io::stderr().write_all(format!("{kind}: {text}\n").as_bytes());
}

/// Returns the system's text for an error, without its number.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
