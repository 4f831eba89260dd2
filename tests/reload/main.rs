// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy that takes the place of another while packets come.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod control;
mod drain;
mod flood;
mod folder;
mod refused;
mod rules;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [flood::ROWS, rules::ROWS, refused::ROWS, drain::ROWS].concat();
    let mut cases = Vec::new();
    for twin in TWINS {
        for (name, limit_s, body) in &rows {
            let body = *body;
            let name = format!("{}/{name}", twin.name());
            cases.push(Case::new(name, *limit_s, move || body(twin)));
        }
    }
    run(cases)
}
