// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes the place of another under load: from each twin to each, by each backend that can, without losing
//! a packet; and what becomes of it when one of them is not what it should be.

use std::process::ExitCode;

use twinwall_tests::case::{for_each_twin, run, Case};

mod chain;
mod give;
mod peer;
mod setting;
mod take;

fn main() -> ExitCode {
    let rows = [give::ROWS, take::ROWS].concat();
    let mut cases: Vec<Case> = chain::ROWS
        .iter()
        .map(|(name, limit_s, body)| Case::new(*name, *limit_s, body))
        .collect();
    cases.extend(for_each_twin(&rows));
    run(cases)
}
