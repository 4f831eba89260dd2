// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets while the firewall drops all, is stopped or killed, or while another firewall owns its queue.

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Firewall};
use testbed::netns::Namespace;
use testbed::packets::force_send_buffer;
use testbed::place::{namespace_with, LOCALHOST};
use testbed::traffic::{
    tcp_connect, tcp_echo, udp_client, udp_exchange, udp_send, UdpFlood, UdpServer, VAIN,
};
use testbed::wait::{until, PATIENCE};

use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("default-drop", default_drop),
    ("killed-with-plain-rules", killed_with_plain_rules),
    ("killed-with-bypass-rules", killed_with_bypass_rules),
    ("second-on-the-same-queue", second_on_the_same_queue),
    ("stopped-under-load", stopped_under_load),
];

fn check_passes(namespace: &Namespace, when: &str) -> anyhow::Result<()> {
    let connected = tcp_connect(namespace, LOCALHOST, PATIENCE);
    connected.with_context(|| format!("traffic does not pass {when}"))?;
    Ok(())
}

fn check_does_not_pass(namespace: &Namespace, when: &str) -> anyhow::Result<()> {
    let connected = tcp_connect(namespace, LOCALHOST, VAIN);
    ensure!(connected.is_err(), "traffic passes {when}");
    Ok(())
}

fn default_drop(subject: &Subject) -> anyhow::Result<()> {
    const SENT: u64 = 100;
    let namespace = namespace_with("balanced-9999")?;
    let arguments = subject.with(&["--queue", "0:1", "--default", "drop"]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    tcp_echo(&namespace, LOCALHOST)?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    udp_send(&udp_client(&namespace, LOCALHOST)?, SENT, 18)?;
    check_does_not_pass(&namespace, "a firewall that drops all")?;
    let ledger = firewall.finish()?.total;
    ledger.check_clean()?;
    // Besides the datagrams, the firewall receives the SYN, and perhaps its retransmission.
    ensure!(ledger.received > SENT, "received {}", ledger.received);
    ensure!(
        ledger.verdict("drop") == ledger.received,
        "not all was dropped: {ledger:?}"
    );
    server.check_arrived(0)
}

fn killed_with_plain_rules(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999")?;
    tcp_echo(&namespace, LOCALHOST)?;
    check_does_not_pass(&namespace, "before a firewall runs")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    check_passes(&namespace, "while the firewall runs")?;
    firewall.kill()?;
    check_does_not_pass(&namespace, "after the firewall was killed")?;
    let again = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    check_passes(&namespace, "after a new start")?;
    again.finish()?.total.check_reconciled()
}

fn killed_with_bypass_rules(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("bypass-9999")?;
    tcp_echo(&namespace, LOCALHOST)?;
    check_passes(&namespace, "before a firewall runs")?;
    let arguments = subject.with(&["--default", "drop"]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    check_does_not_pass(&namespace, "while a firewall runs that drops all")?;
    firewall.kill()?;
    check_passes(&namespace, "after the firewall was killed")
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

/// Sends SIGTERM during a flood. Checks that each packet that the firewall received has its verdict, and that the
/// ledger counts the others. Does this several times, since the signal must arrive in the short time between receiving
/// and answering.
fn stopped_under_load(subject: &Subject) -> anyhow::Result<()> {
    const TIMES: u32 = 12;
    let namespace = namespace_with("loopback-9999-udp")?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let client = udp_client(&namespace, LOCALHOST)?;
    // A smaller buffer would make the sender wait for room, and the queue would be empty when the firewall reads it for
    // the last time.
    force_send_buffer(&client, 256 << 20)?;
    let flood = UdpFlood::start(client);
    for time in 1..=TIMES {
        let arrived_before = server.arrived()?;
        let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
        until("the flood has reached the server", PATIENCE, || {
            Ok(server.arrived()? > arrived_before + 3000)
        })?;
        let ledger = firewall
            .stop()
            .with_context(|| format!("time {time}"))?
            .total;
        ledger.check_reconciled()?;
        // Without a firewall no packet passes, so the number of arrived packets becomes final.
        let accepted = ledger.verdict("accept");
        server
            .check_arrived(arrived_before + accepted)
            .with_context(|| format!("time {time}: {accepted} were accepted"))?;
    }
    flood.stop();
    Ok(())
}
