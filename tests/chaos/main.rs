// SPDX-License-Identifier: GPL-2.0-or-later
//! Each thing that the failure contract is about is made to happen: what the contract says must come true.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod contract;
mod crash;
mod flips;
mod odd;
mod overload;
mod scene;
mod stall;

/// A case that is made for both twins: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [
        contract::ROWS,
        stall::ROWS,
        crash::ROWS,
        overload::ROWS,
        odd::ROWS,
        flips::ROWS,
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
    run(cases)
}
