// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens to packets when the firewall says no, stops, dies, or is not alone.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{ensure, Context};
use harness::netns::Namespace;
use twinwall_tests::case::until;
use twinwall_tests::firewall::{run_to_end, Firewall};
use twinwall_tests::place::namespace_with;
use twinwall_tests::traffic::{
    tcp_connect, tcp_echo, udp_client, udp_exchange, udp_send, UdpFlood, UdpServer, VAIN,
};

use crate::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("default-drop", 30, default_drop),
    ("killed-with-plain-rules", 30, killed_with_plain_rules),
    ("killed-with-bypass-rules", 30, killed_with_bypass_rules),
    ("second-on-the-same-queue", 30, second_on_the_same_queue),
    ("stopped-under-load", 60, stopped_under_load),
];

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn connects(namespace: &Namespace) -> bool {
    tcp_connect(namespace, LOCALHOST, VAIN).is_ok()
}

fn default_drop(subject: &Subject) -> anyhow::Result<()> {
    const SENT: u64 = 100;
    let namespace = namespace_with("balanced-9999")?;
    let arguments = subject.with(&["--queue", "0:1", "--default", "drop"]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    tcp_echo(&namespace, LOCALHOST)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    udp_send(&udp_client(&namespace, LOCALHOST)?, SENT, 18)?;
    ensure!(!connects(&namespace), "a TCP connection was made");
    let ledger = firewall.finish()?.total;
    ledger.check_clean()?;
    // The SYN, and perhaps its repetition, beside the datagrams.
    ensure!(ledger.received > SENT, "received {}", ledger.received);
    ensure!(
        ledger.verdict("drop") == ledger.received,
        "not all was dropped: {ledger:?}"
    );
    ensure!(
        server.settled()? == 0,
        "{} datagrams arrived",
        server.arrived()?
    );
    Ok(())
}

fn killed_with_plain_rules(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999")?;
    tcp_echo(&namespace, LOCALHOST)?;
    ensure!(
        !connects(&namespace),
        "traffic passes before a firewall runs"
    );
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    ensure!(
        connects(&namespace),
        "traffic does not pass while the firewall runs"
    );
    firewall.kill()?;
    ensure!(
        !connects(&namespace),
        "traffic passes after the firewall was killed"
    );
    let again = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    ensure!(
        connects(&namespace),
        "traffic does not pass after a new start"
    );
    again.finish()?.total.check_reconciled()
}

fn killed_with_bypass_rules(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("bypass-9999")?;
    tcp_echo(&namespace, LOCALHOST)?;
    ensure!(
        connects(&namespace),
        "traffic does not pass before a firewall runs"
    );
    let arguments = subject.with(&["--default", "drop"]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    ensure!(
        !connects(&namespace),
        "the firewall is not asked while it runs"
    );
    firewall.kill()?;
    ensure!(
        connects(&namespace),
        "traffic does not pass after the firewall was killed"
    );
    Ok(())
}

fn second_on_the_same_queue(subject: &Subject) -> anyhow::Result<()> {
    const REQUESTS: u64 = 100;
    let namespace = namespace_with("loopback-9999-udp")?;
    let mut first = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    let second = run_to_end(&namespace, &[], subject.twin, &subject.with(&[]))?;
    ensure!(
        second.code == Some(5),
        "exit code {:?}: {}",
        second.code,
        second.stderr
    );
    ensure!(first.is_running()?, "the first firewall ended");
    let _server = UdpServer::start(&namespace, LOCALHOST, true)?;
    udp_exchange(&udp_client(&namespace, LOCALHOST)?, REQUESTS)?;
    let ledger = first.finish()?.total;
    ledger.check_clean()?;
    ensure!(
        ledger.received == REQUESTS,
        "received {} of {REQUESTS}",
        ledger.received
    );
    Ok(())
}

/// SIGTERM in the middle of a flood: what the firewall took has its verdict, and what it didn't take the ledger names.
/// It is done again and again, since the signal must meet the short time between taking and answering to tell.
fn stopped_under_load(subject: &Subject) -> anyhow::Result<()> {
    const TIMES: u32 = 12;
    let namespace = namespace_with("loopback-9999-udp")?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let flood = UdpFlood::start(udp_client(&namespace, LOCALHOST)?);
    for time in 1..=TIMES {
        let arrived_before = server.arrived()?;
        let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
        until(
            "the flood has reached the server",
            Duration::from_secs(20),
            || Ok(server.arrived()? > arrived_before + 3000),
        )?;
        let ledger = firewall
            .stop()
            .with_context(|| format!("time {time}"))?
            .total;
        ledger.check_reconciled()?;
        // Without a firewall nothing passes, so this comes to rest.
        let arrived = server.settled()? - arrived_before;
        let accepted = ledger.verdict("accept");
        ensure!(
            arrived == accepted,
            "{accepted} accepted, {arrived} arrived"
        );
    }
    flood.stop();
    Ok(())
}
