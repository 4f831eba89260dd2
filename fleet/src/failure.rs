// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors: one line "CAUSE: CURE" and its kind.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Kinds of errors that callers handle differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request, a file of the user or a policy can't be used.
    Request,
    /// Content can't be trusted: a signature, digest or number is wrong, or the content is invalid or of another
    /// channel.
    Untrusted,
    /// The store does not answer, or can't serve the request now: the same call may work later.
    Unreachable,
    /// The store or root's service answered, and refused: it refuses the same request again.
    Refused,
    /// Root's service can't carry out the request now: the same request may succeed later.
    Later,
    /// A file or a program of this host failed.
    System,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// "CAUSE: CURE", without a line end.
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(kind: Kind, text: impl Display) -> Failure {
        let text = text.to_string();
        Failure { kind, text }
    }
}

pub fn request(text: impl Display) -> Failure {
    Failure::new(Kind::Request, text)
}

pub fn untrusted(text: impl Display) -> Failure {
    Failure::new(Kind::Untrusted, text)
}

pub fn unreachable(text: impl Display) -> Failure {
    Failure::new(Kind::Unreachable, text)
}

pub fn refused(text: impl Display) -> Failure {
    Failure::new(Kind::Refused, text)
}

pub fn later(text: impl Display) -> Failure {
    Failure::new(Kind::Later, text)
}

pub fn system(text: impl Display) -> Failure {
    Failure::new(Kind::System, text)
}

/// Returns a function that converts the error of a file operation to a failure of the kind `System`: "PATH: the
/// system's text".
pub fn at(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| system(format_args!("{}: {error}", path.display()))
}

impl From<apply::failure::Failure> for Failure {
    fn from(failure: apply::failure::Failure) -> Failure {
        match failure.kind {
            apply::failure::Kind::Policy => request(failure.text),
            apply::failure::Kind::System => system(failure.text),
        }
    }
}
