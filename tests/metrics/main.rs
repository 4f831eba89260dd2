// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of running firewalls: both say the same, a real Prometheus reads them, no client keeps a packet waiting,
//! and the dashboard asks for nothing else.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod abuse;
mod dashboard;
mod http;
mod prometheus;
mod text;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [text::ROWS, prometheus::ROWS, abuse::ROWS].concat();
    let mut cases = vec![
        Case::new("both-say-the-same", 60, text::same_text),
        Case::new("both-refuse-the-same-addresses", 60, text::same_refusals),
        Case::new("the-dashboard-asks-for-what-there-is", 60, dashboard::known),
    ];
    for twin in TWINS {
        for (name, limit_s, body) in &rows {
            let body = *body;
            let name = format!("{}/{name}", twin.name());
            cases.push(Case::new(name, *limit_s, move || body(twin)));
        }
    }
    run(cases)
}
