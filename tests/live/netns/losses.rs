// SPDX-License-Identifier: GPL-2.0-or-later
//! More packets than a queue or a buffer holds: losses are counted, and the firewall continues.

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::ledger::Ledger;
use testbed::netns::Namespace;
use testbed::overload::send_while_stopped;
use testbed::place::{namespace_with, LOCALHOST};
use testbed::traffic::{udp_client, udp_exchange, UdpFlood, UdpServer};
use testbed::wait::{until, PATIENCE};

use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("queue-full", queue_full),
    ("buffer-full", buffer_full),
    ("queue-full-fail-open", queue_full_fail_open),
    ("buffer-full-fail-open", buffer_full_fail_open),
    ("flood-beyond-the-queue", flood_beyond_the_queue),
    ("flood-beyond-the-buffer", flood_beyond_the_buffer),
];

const SENT: u64 = 1000;
/// Number of requests sent after an overload, one at a time: each fits into the smallest queue and buffer.
const AFTERWARDS: u64 = 50;
const SMALL_QUEUE: [&str; 2] = ["--queue-length", "16"];
const SMALL_BUFFER: [&str; 2] = ["--receive-buffer", "4096"];

/// Sends more packets than fit into the firewall's queue or buffer, and checks how many arrive. Then sends normal
/// traffic, all of which must pass. Returns the ledger before the normal traffic.
/// - arguments: options that make the queue or the buffer small.
/// - delivered: computes from this ledger the number of datagrams that must arrive.
fn overload(
    subject: &Subject,
    arguments: &[&'static str],
    delivered: fn(&Ledger) -> u64,
) -> anyhow::Result<Ledger> {
    let namespace = namespace_with("loopback-9999-udp")?;
    // With a deadline, the guard would answer the waiting packets while a busy machine still sends.
    let arguments = [arguments, &["--deadline", "0"]].concat();
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&arguments))?;
    let server = UdpServer::start(&namespace, LOCALHOST, true)?;
    send_while_stopped(&namespace, &firewall, SENT)?;
    let ledger = firewall.settled_ledger()?.total;
    ledger.check_reconciled()?;
    server.check_arrived(delivered(&ledger))?;
    check_normal_traffic(&namespace, firewall, &ledger)?;
    Ok(ledger)
}

fn check_normal_traffic(
    namespace: &Namespace,
    firewall: Firewall,
    before: &Ledger,
) -> anyhow::Result<()> {
    udp_exchange(&udp_client(namespace, LOCALHOST)?, AFTERWARDS)?;
    let after = firewall.finish()?.total;
    after.check_reconciled()?;
    ensure!(
        after.received == before.received + AFTERWARDS,
        "received {} afterwards",
        after.received
    );
    ensure!(
        after.lost == before.lost,
        "normal traffic was lost: {after:?}"
    );
    Ok(())
}

fn queue_full(subject: &Subject) -> anyhow::Result<()> {
    let ledger = overload(subject, &SMALL_QUEUE, |_| 16)?;
    ensure!(
        ledger.received == 16,
        "received {} with a queue of 16",
        ledger.received
    );
    ensure!(
        ledger.kernel.queue_full == SENT - 16,
        "queue_full {}",
        ledger.kernel.queue_full
    );
    Ok(())
}

fn buffer_full(subject: &Subject) -> anyhow::Result<()> {
    let ledger = overload(subject, &SMALL_BUFFER, |ledger| ledger.received)?;
    let user_drop = ledger.kernel.user_drop;
    ensure!(
        user_drop > 0,
        "nothing was too much for a buffer of 4096 bytes"
    );
    ensure!(
        ledger.received + user_drop == SENT,
        "received {}, user_drop {user_drop}",
        ledger.received
    );
    ensure!(
        ledger.kernel.offered == SENT,
        "offered {}",
        ledger.kernel.offered
    );
    ensure!(ledger.overruns > 0, "no receive call told of the overrun");
    Ok(())
}

/// Checks --fail open with a full queue: the packets for which it has no room pass uninspected, and are not counted
/// (docs/RUN.md).
fn queue_full_fail_open(subject: &Subject) -> anyhow::Result<()> {
    let arguments = [SMALL_QUEUE[0], SMALL_QUEUE[1], "--fail", "open"];
    let ledger = overload(subject, &arguments, |_| SENT)?;
    ensure!(
        ledger.received == 16,
        "received {} with a queue of 16",
        ledger.received
    );
    ensure!(ledger.lost == 0, "lost {} with --fail open", ledger.lost);
    Ok(())
}

fn buffer_full_fail_open(subject: &Subject) -> anyhow::Result<()> {
    let arguments = [SMALL_BUFFER[0], SMALL_BUFFER[1], "--fail", "open"];
    let ledger = overload(subject, &arguments, |_| SENT)?;
    let unseen = ledger.kernel.unseen;
    ensure!(
        unseen > 0,
        "nothing was too much for a buffer of 4096 bytes"
    );
    ensure!(
        ledger.received + unseen == SENT,
        "received {}, unseen {unseen}",
        ledger.received
    );
    ensure!(ledger.lost == 0, "lost {} with --fail open", ledger.lost);
    Ok(())
}

/// Floods a running firewall until packets are lost, and then sends normal traffic. Returns the ledger between both.
fn flood_beyond(subject: &Subject, arguments: &[&'static str]) -> anyhow::Result<Ledger> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let mut firewall = Firewall::start(&namespace, subject.twin, &subject.with(arguments))?;
    let server = UdpServer::start(&namespace, LOCALHOST, true)?;
    let flood = UdpFlood::start(udp_client(&namespace, LOCALHOST)?);
    let lost = until("the flood is too much", PATIENCE, || {
        let ledger = firewall.ledger()?.total;
        Ok(ledger.lost >= 100 && ledger.received >= 1000)
    });
    flood.stop();
    lost?;
    ensure!(firewall.is_running()?, "the firewall ended");
    let ledger = firewall.settled_ledger()?.total;
    ledger.check_reconciled()?;
    server.check_arrived(ledger.verdict("accept"))?;
    check_normal_traffic(&namespace, firewall, &ledger)?;
    Ok(ledger)
}

fn flood_beyond_the_queue(subject: &Subject) -> anyhow::Result<()> {
    let ledger = flood_beyond(subject, &["--queue-length", "1"])?;
    ensure!(
        ledger.kernel.queue_full == ledger.lost,
        "lost elsewhere: {ledger:?}"
    );
    Ok(())
}

fn flood_beyond_the_buffer(subject: &Subject) -> anyhow::Result<()> {
    let ledger = flood_beyond(subject, &SMALL_BUFFER)?;
    ensure!(
        ledger.kernel.user_drop == ledger.lost,
        "lost elsewhere: {ledger:?}"
    );
    ensure!(ledger.overruns > 0, "no receive call told of the overrun");
    Ok(())
}
