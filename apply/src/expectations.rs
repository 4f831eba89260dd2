// SPDX-License-Identifier: GPL-2.0-or-later
//! The expectations of a policy, before it is loaded or read anew.

use expect::Settings;
use stage::Source;

use crate::failure::{policy, Result};

/// Fails with the first expectation that does not hold, and how many others there are. Returns how many hold.
/// - source: paths of lists are absolute.
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
