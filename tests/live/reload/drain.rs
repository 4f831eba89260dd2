// SPDX-License-Identifier: GPL-2.0-or-later
//! Drain: the firewall ends when no packet waits.

use std::time::{Duration, Instant};

use anyhow::ensure;
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::place::{namespace_with, LOCALHOST};
use testbed::traffic::{udp_client, UdpFlood, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::folder::PolicyFolder;

pub const ROWS: &[Row] = &[
    ("drain-ends-an-idle-firewall-at-once", idle),
    ("drain-ends-in-a-flood", flood),
];

/// Starts a firewall and drains it during traffic. Returns the time from the request to the firewall's end.
/// - seconds: time limit of the drain.
/// - floods: true if packets arrive until the end; otherwise the traffic ends before the request.
fn drained(twin: Twin, seconds: u32, floods: bool) -> anyhow::Result<Duration> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let folder = PolicyFolder::new("")?;
    let control = folder.control();
    let arguments = [&["--control", &control][..], &PATIENT_GUARD].concat();
    let mut firewall = Firewall::start(&namespace, twin, &arguments)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let flood = UdpFlood::start(udp_client(&namespace, LOCALHOST)?);
    until("the flood arrives", PATIENCE, || {
        Ok(server.arrived()? > 1000)
    })?;
    let mut flood = Some(flood);
    if !floods {
        flood.take().map(UdpFlood::stop);
        firewall.settled_ledger()?;
    }
    let began = Instant::now();
    let request = format!("{{\"command\":\"drain\",\"seconds\":{seconds}}}");
    let answer = Client::new(&control)?.ask(&request)?;
    ensure!(answer["ok"] == true, "{answer}");
    until("it has ended", PATIENCE, || Ok(!firewall.is_running()?))?;
    let took = began.elapsed();
    flood.take().map(UdpFlood::stop);
    let stats = firewall.stop()?;
    stats.total.check_reconciled()?;
    Ok(took)
}

fn idle(twin: Twin) -> anyhow::Result<()> {
    let took = drained(twin, 3600, false)?;
    ensure!(took < PATIENCE, "{took:?}");
    Ok(())
}

fn flood(twin: Twin) -> anyhow::Result<()> {
    let took = drained(twin, 1, true)?;
    ensure!(took < Duration::from_secs(1) + PATIENCE, "{took:?}");
    Ok(())
}
