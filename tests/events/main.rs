// SPDX-License-Identifier: GPL-2.0-or-later
//! Events of running firewalls: what is in the lines, and that no sink, however it fails, loses a line silently, cuts
//! one, or keeps a packet waiting.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::TWINS;

mod running;
mod sinks;
mod tail;
mod types;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (
    &'static str,
    u64,
    fn(twinwall_tests::twin::Twin) -> anyhow::Result<()>,
);

fn main() -> ExitCode {
    let rows = [types::ROWS, tail::ROWS, sinks::ROWS].concat();
    let mut cases = vec![Case::new(
        "both-write-the-same-bytes",
        60,
        types::same_bytes,
    )];
    for twin in TWINS {
        for (name, limit_s, body) in &rows {
            let body = *body;
            let name = format!("{}/{name}", twin.name());
            cases.push(Case::new(name, *limit_s, move || body(twin)));
        }
    }
    run(cases)
}
