// SPDX-License-Identifier: GPL-2.0-or-later
//! The control sockets of running firewalls: their files, their answers, and that no client, whatever it does, keeps a
//! packet or another client waiting.

use std::process::ExitCode;

use twinwall_tests::case::{run, Case};
use twinwall_tests::twin::{Twin, TWINS};

mod abuse;
mod access;
mod client;
mod files;
mod requests;

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

fn main() -> ExitCode {
    let rows = [files::ROWS, access::ROWS, requests::ROWS, abuse::ROWS].concat();
    let mut cases = vec![
        Case::new("both-refuse-the-same-paths", 60, files::same_refusals),
        Case::new("both-answer-the-same", 60, requests::same_answers),
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
