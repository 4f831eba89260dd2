// SPDX-License-Identifier: GPL-2.0-or-later
//! build/fwctl against both twins, through their real sockets, queues and files.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod ctl;
mod decide;
mod doctor;
mod errors;
mod show;
mod top;
mod upgrade;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);
/// A case without a twin.
pub type LoneRow = (&'static str, u64, fn() -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [
        show::ROWS,
        errors::ROWS,
        decide::ROWS,
        top::ROWS,
        doctor::ROWS,
        upgrade::ROWS,
    ]
    .concat();
    let mut cases = Vec::new();
    for twin in TWINS {
        for (name, limit_s, body) in &rows {
            let body = *body;
            let name = format!("{}/{name}", twin.name());
            cases.push(Case::new(name, *limit_s, move || body(twin)));
        }
    }
    for (name, limit_s, body) in [errors::LONE_ROWS, doctor::LONE_ROWS].concat() {
        cases.push(Case::new(name, limit_s, body));
    }
    run(cases)
}
