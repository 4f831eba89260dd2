// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors that end the program: one line with cause and cure, and an exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::message;

/// Exit code of all failures but bad usage and missing rights, for example: a system call failed, an interface is gone,
/// a disk is full and `--on-full stop` was given, the ledger does not reconcile.
pub const EXIT_FAILED: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_PRIVILEGE: u8 = 3;

#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    /// Message without `error:`: a cause and its cure, or a failed operation and the system's error.
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure {
            code: EXIT_USAGE,
            text: text.into(),
        }
    }

    pub fn system(what: &str, error: &io::Error) -> Failure {
        Failure::failed(format!("{what}: {error}"))
    }

    pub fn privilege(text: impl Into<String>) -> Failure {
        Failure {
            code: EXIT_PRIVILEGE,
            text: text.into(),
        }
    }

    pub fn failed(text: impl Into<String>) -> Failure {
        Failure {
            code: EXIT_FAILED,
            text: text.into(),
        }
    }
}

/// Prints the error that ended a program, if there is one, and returns the exit code. For --help and --version, prints
/// their text and ends the process.
/// - program: its name, for a reference to its --help.
/// - ended: an error of the command line, otherwise the result of the run.
pub fn exit(program: &str, ended: std::result::Result<Result<()>, clap::Error>) -> ExitCode {
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            message::print(format_args!("error: {failure}\n"));
            ExitCode::from(failure.code)
        }
        // clap reports --help and --version as errors, too.
        Err(words) if !words.use_stderr() => words.exit(),
        Err(error) => {
            message::print(format_args!("error: {}\n", one_line(program, &error)));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Joins clap's message to one line that refers to the program's --help, without its usage text.
pub fn one_line(program: &str, error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .trim_start_matches("error: ")
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty());
    format!("{}: {program} --help", lines.collect::<Vec<_>>().join(" "))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}
