// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl drops` with the kernel's drop monitor. Only one program can use the monitor at a time, so the case needs a
//! separate machine. Every kind of drop must be reported, and the drops of queues must equal those in the firewall's
//! ledger.

use std::process::Command;

use anyhow::{bail, ensure, Context};
use serde_json::Value;
use testbed::skip::skip;
use testbed::twin::{root, Twin};

use super::machine::build;

/// Number of packets that the script guest/drops sends for each kind of drop, except for full sockets.
const PACKETS: u64 = 5;
const MODULES: [&str; 4] = ["drop_monitor", "nf_tables", "nft_queue", "nfnetlink_queue"];
/// Exit code of vm/run if the machine can't run here.
const CANNOT_RUN: i32 = 77;

pub fn every_drop_is_told(twin: Twin) -> anyhow::Result<()> {
    let script = root().join("tests/live/kernel/guest/drops");
    build()?;
    let fwctl = twin.binary().with_file_name("fwctl");
    let programs = [fwctl, twin.binary(), root().join("build/kernel/guest")];
    let mut command = Command::new(root().join("vm/run"));
    command.args(["--memory", "512", "--timeout", "1200", "--console"]);
    command.arg(root().join(format!("build/kernel/console-drops-{}", twin.name())));
    command.args(MODULES.iter().flat_map(|module| ["--module", module]));
    for file in ["/usr/sbin/nft", "/usr/bin/bash"] {
        command.args(["--file", file]);
    }
    for file in programs.iter().chain([&script]) {
        command.arg("--file").arg(file);
    }
    command
        .args(["--", "/usr/bin/bash"])
        .arg(&script)
        .args(&programs);
    let output = command.output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(CANNOT_RUN) => return Err(skip(words)),
        code => bail!(
            "vm/run: {code:?}: {words}{}",
            String::from_utf8_lossy(&output.stdout)
        ),
    }
    check(&String::from_utf8_lossy(&output.stdout))
}

fn check(text: &str) -> anyhow::Result<()> {
    let mut rows: Vec<Value> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        rows.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
    }
    let sum = |by: &str, reason: &str| -> u64 {
        let of_it = rows
            .iter()
            .filter(|row| row["by"] == by && row["reason"] == reason);
        of_it.filter_map(|row| row["packets"].as_u64()).sum()
    };
    let ledger = rows
        .iter()
        .find(|row| row["event"] == "stats")
        .context(text.to_owned())?;
    let total = &ledger["total"];
    let counted = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    ensure!(ledger["reconciled"] == true, "{ledger}");
    ensure!(sum("rule", "NETFILTER_DROP") == PACKETS, "{text}");
    ensure!(sum("kernel", "NO_SOCKET") == PACKETS, "{text}");
    ensure!(sum("kernel", "SOCKET_RCVBUFF") > 0, "{text}");
    // The queue without a listener drops PACKETS packets; the queue with a full socket drops those that the ledger
    // counts.
    let user_drop = counted(&total["kernel"]["user_drop"]);
    ensure!(user_drop > 0, "the socket was never full: {text}");
    ensure!(
        sum("queue", "NOT_SPECIFIED") == PACKETS + user_drop,
        "{text}"
    );
    ensure!(
        sum("verdict", "NOT_SPECIFIED") == counted(&total["verdicts"]["drop"]),
        "{text}"
    );
    let flow = rows
        .iter()
        .find(|row| row["reason"] == "NO_SOCKET")
        .context("a flow")?;
    ensure!(flow["interface"] == "lo", "{flow}");
    let told = flow["flow"].as_str().unwrap_or_default();
    ensure!(
        told.starts_with("udp 127.0.0.1:") && told.ends_with(" > 127.0.0.1:7000"),
        "{flow}"
    );
    ensure!(
        text.contains("second error: the kernel's drop monitor is in use"),
        "{text}"
    );
    let again = text.lines().find_map(|line| line.strip_prefix("again "));
    ensure!(
        again.is_some_and(|line| line.contains("\"source\":\"drop monitor\"")),
        "{text}"
    );
    Ok(())
}
