// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics for Prometheus, for the node exporter's textfile collector. They do not go through etcd.

use std::path::Path;

use crate::failure::Result;
use crate::file;
use crate::report::{Ledger, Phase, Report};

fn text(report: &Report) -> String {
    let local = &report.local;
    let is = |holds: bool| u64::from(holds);
    let metric = |name: &str, help: &str, value: u64| {
        let channel = &report.channel;
        format!(
            "# HELP twinwall_fleet_{name} {help}\n# TYPE twinwall_fleet_{name} gauge\n\
             twinwall_fleet_{name}{{channel=\"{channel}\"}} {value}\n"
        )
    };
    [
        metric(
            "generation_wanted",
            "Generation of the channel's pointer.",
            report.wanted,
        ),
        metric(
            "generation_confirmed",
            "Generation that was confirmed last.",
            local.confirmed,
        ),
        metric(
            "reverted",
            "Whether the host went back from the latest generation.",
            is(local.phase == Phase::Reverted),
        ),
        metric(
            "ledger_red",
            "Whether the firewall's ledger does not reconcile.",
            is(local.ledger == Ledger::Red),
        ),
        metric(
            "error",
            "Whether the agent's last step failed.",
            is(report.error.is_some()),
        ),
    ]
    .concat()
}

/// Writes the metrics of a report into a file that all users may read. The file's time shows that the agent runs.
pub fn write(path: &Path, report: &Report) -> Result<()> {
    file::replace_soon(path, text(report).as_bytes())?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(path, mode).map_err(crate::failure::at(path))
}
