// SPDX-License-Identifier: GPL-2.0-or-later
//! The twins against each other, and both against what the documents say of them.

use std::process::ExitCode;

use twinwall_tests::case::run;

mod calls;
mod command_line;
mod explain;
mod failures;
mod files;
mod policy;
mod reports;
mod start;

fn main() -> ExitCode {
    let parts = [
        files::cases(),
        command_line::cases(),
        start::cases(),
        failures::cases(),
        policy::cases(),
        explain::cases(),
        reports::cases(),
        calls::cases(),
    ];
    run(parts.into_iter().flatten().collect())
}
