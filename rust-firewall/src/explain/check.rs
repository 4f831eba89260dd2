// SPDX-License-Identifier: GPL-2.0-or-later
//! `check`: whether a policy is sound.

use crate::base::log::{self, Failure, LogExit};
use crate::base::output;
use crate::engine::compile::{self, CompileSettings};
use crate::options::Options;
use crate::policy::parse;
use crate::policy::print;

fn check(options: &Options) -> Result<(), Failure> {
    let policy = parse::file(options.policy.as_deref().unwrap_or_default())?;
    // Interfaces are looked for when packets run.
    let settings = CompileSettings {
        linear: false,
        interface_index: &|_| 0,
        interfaces_must_exist: false,
    };
    compile::policy(&policy, &settings)?;
    match options.print {
        true => output::print(&print::policy(&policy)),
        false => output::print("ok\n"),
    }
    Ok(())
}

/// Prints "ok", or with options.print the canonical text, or what is wrong. Returns the exit code.
pub fn run(options: &Options) -> LogExit {
    match check(options) {
        Ok(()) => LogExit::Stopped,
        Err(failure) => log::fail(&failure),
    }
}
