// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors: one line "CAUSE: CURE" and its kind.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Kind of error that ended an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The policy, or the request, can't be used.
    Policy,
    /// The kernel, another program (nft, the firewall, …) or the state folder refused or failed.
    System,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// "CAUSE: CURE", without a line end.
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Returns an error in the policy or the request.
pub fn policy(text: impl Display) -> Failure {
    Failure {
        kind: Kind::Policy,
        text: text.to_string(),
    }
}

/// Returns an error of the kernel, another program or the state folder.
pub fn system(text: impl Display) -> Failure {
    Failure {
        kind: Kind::System,
        text: text.to_string(),
    }
}

/// Returns a function that makes the failure of a file operation: "PATH: the system's text".
pub fn at(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| system(format_args!("{}: {error}", path.display()))
}
