// SPDX-License-Identifier: GPL-2.0-or-later
//! Error of the cage or of the command's start: one line, and an exit code like env(1)'s.

use std::fmt::Display;
use std::io;

/// Exit code: the cage itself failed, before the command's start or while it ran.
pub const CAGE: u8 = 125;
/// Exit code: the command was found and could not be run.
pub const NOT_RUN: u8 = 126;
/// Exit code: the command was not found.
pub const NOT_FOUND: u8 = 127;

/// Error: exit code, and the text of the error line (the cause, and its cure if there is one) without "error: " and
/// without a line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    pub text: String,
}

impl Failure {
    pub fn new(text: impl Display) -> Failure {
        Failure {
            code: CAGE,
            text: text.to_string(),
        }
    }

    /// Returns a function that converts the error of a system call into a failure. Its text is the step and the error.
    pub fn at<E: Into<io::Error>>(step: impl Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::new(format_args!("{step}: {}", words(&error.into())))
    }
}

/// Returns the system's text for an error, without its number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
