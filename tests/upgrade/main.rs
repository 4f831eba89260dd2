// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes the place of another under load: from each twin to each, by each backend that can, without losing
//! a packet; and what becomes of it when one of them is not what it should be.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod chain;
mod give;
mod peer;
mod setting;
mod take;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [give::ROWS, take::ROWS].concat();
    let mut cases: Vec<Case> = chain::ROWS
        .iter()
        .map(|(name, limit_s, body)| Case::new(*name, *limit_s, body))
        .collect();
    for twin in TWINS {
        for (name, limit_s, body) in &rows {
            let body = *body;
            let name = format!("{}/{name}", twin.name());
            cases.push(Case::new(name, *limit_s, move || body(twin)));
        }
    }
    run(cases)
}
