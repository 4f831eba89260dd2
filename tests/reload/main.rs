// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy that takes the place of another while packets come.

use std::process::ExitCode;

use twinwall_tests::case::{for_each_twin, run};

mod control;
mod drain;
mod flood;
mod folder;
mod refused;
mod rules;

fn main() -> ExitCode {
    let rows = [flood::ROWS, rules::ROWS, refused::ROWS, drain::ROWS].concat();
    run(for_each_twin(&rows))
}
