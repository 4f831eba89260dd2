// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors that end the program: a message with the cause and, if there is one, its cure; and an exit code.

use std::fmt;
use std::io;

/// Exit code: the scan was completed, and with --verify the answers match the policy.
pub const EXIT_DONE: u8 = 0;
/// Exit code: the scan failed, e.g. in a system call, or with --verify the answers differ from the policy.
pub const EXIT_FAILED: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_PRIVILEGE: u8 = 3;
/// Exit code: before all targets were done, SIGINT or SIGTERM arrived, or the reader of the results closed the output.
pub const EXIT_INTERRUPTED: u8 = 4;

#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    /// Message without `error:`; `CAUSE: CURE` if there is a cure.
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
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => EXIT_PRIVILEGE,
            _ => EXIT_FAILED,
        };
        Failure {
            code,
            text: format!("{what}: {error}"),
        }
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}
