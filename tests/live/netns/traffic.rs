// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic passes unchanged, and the ledger counts it exactly.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::ledger::Ledger;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6, VETH_MTU};
use testbed::place::{namespace, namespace_with, restore, run, veth, LOCALHOST, PORT};
use testbed::traffic::{
    tcp_ask, tcp_connect_from, tcp_echo, tcp_transfer, udp_client, udp_exchange, udp_send,
    UdpServer,
};

use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("tcp-256-mib", tcp_256_mib),
    ("udp", udp),
    ("icmp", icmp),
    ("ipv6", ipv6),
    ("veth-both-protocols", veth_both_protocols),
    ("gso-on-and-off", gso_on_and_off),
    ("balanced-over-two-queues", balanced_over_two_queues),
    ("10000-connections", ten_thousand_connections),
    ("ledger-against-the-truth", ledger_against_the_truth),
    ("profile-paper", profile_paper),
];

const IPV4_AND_UDP_BYTES: u64 = 28;

fn check_all_accepted(ledger: &Ledger) -> anyhow::Result<()> {
    ledger.check_clean()?;
    ensure!(ledger.received > 0, "the firewall saw nothing");
    ensure!(
        ledger.verdict("accept") == ledger.received,
        "not all was accepted: {ledger:?}"
    );
    Ok(())
}

fn tcp_256_mib(subject: &Subject) -> anyhow::Result<()> {
    const BYTES: u64 = 256 << 20;
    let namespace = namespace_with("loopback-9999")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    tcp_transfer(&namespace, &namespace, LOCALHOST, BYTES)?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    ensure!(
        ledger.bytes > BYTES,
        "{} bytes seen of {BYTES} sent",
        ledger.bytes
    );
    Ok(())
}

fn udp(subject: &Subject) -> anyhow::Result<()> {
    const REQUESTS: u64 = 2000;
    let namespace = namespace_with("loopback-9999-udp")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    let _server = UdpServer::start(&namespace, LOCALHOST, true)?;
    udp_exchange(&udp_client(&namespace, LOCALHOST)?, REQUESTS)?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    ensure!(
        ledger.received == REQUESTS,
        "received {} of {REQUESTS}",
        ledger.received
    );
    Ok(())
}

fn icmp(subject: &Subject) -> anyhow::Result<()> {
    const REQUESTS: u64 = 20;
    let namespace = namespace()?;
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -p icmp --icmp-type echo-request -j NFQUEUE",
    )?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    // Each ping sends one request: after several requests, ping waits for late responses only twice the longest
    // round-trip time.
    for _ in 0..REQUESTS {
        run(
            &namespace,
            "ping",
            &["-n", "-c", "1", "-W", "30", "127.0.0.1"],
        )?;
    }
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    ensure!(
        ledger.received == REQUESTS,
        "received {} of {REQUESTS}",
        ledger.received
    );
    Ok(())
}

fn ipv6(subject: &Subject) -> anyhow::Result<()> {
    const BYTES: u64 = 16 << 20;
    let namespace = namespace_with("loopback-9999-ipv6")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    tcp_transfer(&namespace, &namespace, Ipv6Addr::LOCALHOST.into(), BYTES)?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    ensure!(
        ledger.bytes > BYTES,
        "{} bytes seen of {BYTES} sent",
        ledger.bytes
    );
    Ok(())
}

fn veth_both_protocols(subject: &Subject) -> anyhow::Result<()> {
    const REQUESTS: u64 = 200;
    let (client, server) = veth()?;
    let firewall = Firewall::start(&server, subject.twin, &subject.with(&[]))?;
    let addresses = [VETH_IPV4.1, VETH_IPV6.1];
    for address in addresses {
        let before = firewall.settled_ledger()?.total.received;
        let _server = UdpServer::start(&server, address, true)?;
        udp_exchange(&udp_client(&client, address)?, REQUESTS)?;
        let seen = firewall.settled_ledger()?.total.received - before;
        ensure!(seen == REQUESTS, "{address}: received {seen} of {REQUESTS}");
    }
    // TCP runs after everything that is counted, because it may retransmit slow packets.
    for address in addresses {
        tcp_transfer(&client, &server, address, 4 << 20)?;
    }
    check_all_accepted(&firewall.finish()?.total)
}

/// Returns the mean length of the packets of a TCP stream over veth, in bytes, as the firewall sees them.
/// - gso: value of --gso.
fn stream_packet_bytes(subject: &Subject, gso: &str) -> anyhow::Result<f64> {
    const BYTES: u64 = 32 << 20;
    let (client, server) = veth()?;
    let firewall = Firewall::start(&server, subject.twin, &subject.with(&["--gso", gso]))?;
    tcp_transfer(&client, &server, VETH_IPV4.1, BYTES)?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    ensure!(
        ledger.bytes > BYTES,
        "{} bytes seen of {BYTES} sent",
        ledger.bytes
    );
    Ok(ledger.bytes as f64 / ledger.received as f64)
}

fn gso_on_and_off(subject: &Subject) -> anyhow::Result<()> {
    let on = stream_packet_bytes(subject, "on")?;
    let off = stream_packet_bytes(subject, "off")?;
    let mtu = f64::from(VETH_MTU);
    // The exact length depends on TCP and on the delay of packets.
    ensure!(
        on > mtu,
        "with --gso on a packet of a stream has {on:.0} bytes"
    );
    ensure!(
        off <= mtu,
        "with --gso off a packet of a stream has {off:.0} bytes, more than the MTU"
    );
    Ok(())
}

fn balanced_over_two_queues(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("balanced-9999")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&["--queue", "0:1"]))?;
    tcp_echo(&namespace, LOCALHOST)?;
    // The kernel selects a queue by a hash of the addresses with a random seed. The probability that all 64 clients
    // have the same queue is 2^-63.
    for host in 2..66 {
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
        let mut stream = tcp_connect_from(&namespace, from, LOCALHOST).context("connect")?;
        tcp_ask(&mut stream)?;
    }
    let stats = firewall.finish()?;
    ensure!(
        stats.queues.len() == 2,
        "{} ledgers for two queues",
        stats.queues.len()
    );
    for (number, ledger) in stats.queues.iter().enumerate() {
        ensure!(
            ledger.queue == Some(number as u16),
            "ledger {number} is that of {:?}",
            ledger.queue
        );
        check_all_accepted(ledger).with_context(|| format!("queue {number}"))?;
    }
    check_all_accepted(&stats.total)?;
    let sum: u64 = stats.queues.iter().map(|ledger| ledger.received).sum();
    ensure!(
        stats.total.received == sum,
        "the total is not the sum of the queues"
    );
    Ok(())
}

fn ten_thousand_connections(subject: &Subject) -> anyhow::Result<()> {
    const CONNECTIONS: u64 = 10_000;
    let namespace = namespace_with("loopback-9999")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    tcp_echo(&namespace, LOCALHOST)?;
    namespace.enter(|| -> anyhow::Result<()> {
        for number in 0..CONNECTIONS {
            let mut stream = std::net::TcpStream::connect((LOCALHOST, PORT))?;
            tcp_ask(&mut stream).with_context(|| format!("connection {number}"))?;
        }
        Ok(())
    })?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    // SYN, ACK, a byte and FIN go to the server. The ACK of the echoed byte may be part of the FIN.
    ensure!(
        ledger.received >= 4 * CONNECTIONS,
        "received {}",
        ledger.received
    );
    Ok(())
}

fn ledger_against_the_truth(subject: &Subject) -> anyhow::Result<()> {
    const SENT: u64 = 5000;
    let namespace = namespace_with("loopback-9999-udp")?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&[]))?;
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let client = udp_client(&namespace, LOCALHOST)?;
    let mut payload_sum = 0;
    for payload_bytes in [0, 1, 18, 1000, 60_000] {
        udp_send(&client, SENT / 5, payload_bytes)?;
        payload_sum += SENT / 5 * payload_bytes as u64;
    }
    let running = firewall.settled_ledger()?.total;
    running.check_clean()?;
    let ledger = firewall.finish()?.total;
    check_all_accepted(&ledger)?;
    for (name, value) in [
        ("received", ledger.received),
        ("offered", ledger.kernel.offered),
        ("received while running", running.received),
    ] {
        ensure!(value == SENT, "{name} {value} of {SENT}");
    }
    server.check_arrived(SENT)?;
    let bytes = payload_sum + SENT * IPV4_AND_UDP_BYTES;
    ensure!(
        ledger.bytes == bytes,
        "{} bytes seen of {bytes} sent",
        ledger.bytes
    );
    Ok(())
}

fn profile_paper(subject: &Subject) -> anyhow::Result<()> {
    const REQUESTS: u64 = 500;
    let (client, server) = veth()?;
    let firewall = Firewall::start(
        &server,
        subject.twin,
        &subject.with(&["--profile", "paper"]),
    )?;
    let profile = firewall.start_line()?.profile;
    ensure!(profile == "paper", "started with the profile {profile}");
    let counter = UdpServer::start(&server, VETH_IPV4.1, true)?;
    udp_exchange(&udp_client(&client, VETH_IPV4.1)?, REQUESTS)?;
    counter.check_arrived(REQUESTS)?;
    check_some_tcp(&client, &server)?;
    // A burst may overflow the kernel's default buffer, as in the published experiment. This loss is counted; there
    // must be no other.
    let ledger = firewall.finish()?.total;
    ledger.check_reconciled()?;
    ensure!(ledger.received > REQUESTS, "received {}", ledger.received);
    ensure!(
        ledger.verdict("accept") == ledger.received,
        "not all was accepted: {ledger:?}"
    );
    Ok(())
}

fn check_some_tcp(client: &Namespace, server: &Namespace) -> anyhow::Result<()> {
    tcp_transfer(client, server, VETH_IPV6.1, 256 << 10)
}
