// SPDX-License-Identifier: GPL-2.0-or-later
//! An error that is no failure: the machine lacks what a test needs.

use std::fmt;

/// The reason why something could not be tried here, in one line.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// The error for what this machine or its kernel lacks: a runner of tests finds the [`Skip`] in it and counts the test as
/// skipped, with the reason.
pub fn skip(reason: impl Into<String>) -> anyhow::Error {
    // One line, since it is printed in one.
    anyhow::Error::new(Skip(reason.into().replace('\n', " ")))
}
