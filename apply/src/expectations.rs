// SPDX-License-Identifier: GPL-2.0-or-later
//! Expectations of a policy, evaluated before it is loaded or reloaded.

use expect::Settings;
use stage::Source;

use crate::failure::{policy, Result};

/// Evaluates the expectations of a policy: comments with the expected verdict of a packet or connection. Returns the
/// number of expectations if all hold; otherwise fails with the first broken expectation and the number of further
/// broken expectations.
/// - source: policy in which the paths of lists are absolute.
pub fn check(source: &Source, settings: &Settings) -> Result<usize> {
    let (count, broken) = expect::hold(source, settings);
    let Some(first) = broken.first() else {
        return Ok(count);
    };
    Err(policy(match broken.len() - 1 {
        0 => first.to_string(),
        others => format!("{first} (broken besides: {others}, see fwctl check)"),
    }))
}
