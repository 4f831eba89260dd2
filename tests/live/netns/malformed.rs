// SPDX-License-Identifier: GPL-2.0-or-later
//! Malformed packets that the kernel queues: the firewall counts them by reason, and decides them as --fail says.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::packets::{ipv4, ipv6, tcp, udp, RawReceiver, RawSender};
use testbed::place::{namespace, restore};
use testbed::traffic::VAIN;

use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("malformed-fail-closed", fail_closed),
    ("malformed-fail-open", fail_open),
];

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const HOP_BY_HOP: u8 = 0;
const NO_NEXT_HEADER: u8 = 59;

/// Hop-by-hop header whose length field says 16 bytes, of which 8 are present.
const CUT_EXTENSION: [u8; 8] = [NO_NEXT_HEADER, 1, 1, 4, 0, 0, 0, 0];

/// Returns the malformed packets sent to 127.0.0.1: the reason that is counted, and the packet.
fn malformed_ipv4() -> Vec<(&'static str, Vec<u8>)> {
    // Fragment offset in units of 8 bytes. With 40 bytes of payload the fragment ends after byte 65535.
    const LAST_OFFSET: u16 = 8191;
    vec![
        ("ipv4-fragment-overflow", ipv4(UDP, LAST_OFFSET, &[0; 40])),
        ("tcp-short", ipv4(TCP, 0, &tcp(5)[..12])),
        ("tcp-data-offset", ipv4(TCP, 0, &tcp(0))),
        ("tcp-data-offset", ipv4(TCP, 0, &tcp(15))),
        ("udp-short", ipv4(UDP, 0, &udp(8, &[])[..6])),
        ("udp-length", ipv4(UDP, 0, &udp(4, b"abcd"))),
        ("udp-length", ipv4(UDP, 0, &udp(1000, b"abcd"))),
        ("icmp-short", ipv4(ICMP, 0, &[8, 0, 0, 0])),
    ]
}

/// Returns the malformed packets sent to ::1: the reason that is counted, and the packet.
fn malformed_ipv6() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("version", ipv6(5, NO_NEXT_HEADER, 0, &[])),
        ("ipv6-payload-length", ipv6(6, NO_NEXT_HEADER, 100, &[0; 8])),
        (
            "ipv6-extension-short",
            ipv6(6, HOP_BY_HOP, 8, &CUT_EXTENSION),
        ),
        ("icmpv6-short", ipv6(6, ICMPV6, 4, &[128, 0, 0, 0])),
    ]
}

/// Returns a packet that must pass with each mode of --fail.
fn well_formed() -> Vec<u8> {
    ipv4(UDP, 0, &udp(12, b"good"))
}

/// Runs a firewall with --fail `mode`, sends all packets, and checks verdicts and counts.
/// - verdict: expected verdict of malformed packets.
/// - arriving: number of TCP packets and of UDP packets that must arrive at 127.0.0.1.
fn play(
    subject: &Subject,
    mode: &'static str,
    verdict: &str,
    arriving: [usize; 2],
) -> anyhow::Result<()> {
    let (localhost, localhost6) = (
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    );
    let namespace = namespace()?;
    let to_queue = |protocol: &str| format!("-A OUTPUT -p {protocol} -j NFQUEUE");
    restore(
        &namespace,
        "iptables",
        &["tcp", "udp", "icmp"].map(to_queue).join("\n"),
    )?;
    // Besides these packets the rule would match only responses to them, and malformed packets cause no response.
    restore(
        &namespace,
        "ip6tables",
        "-A OUTPUT -s ::1 -d ::1 -j NFQUEUE",
    )?;
    let firewall = Firewall::start(&namespace, subject.twin, &subject.with(&["--fail", mode]))?;
    let receivers = [
        RawReceiver::new(&namespace, TCP)?,
        RawReceiver::new(&namespace, UDP)?,
    ];

    let mut expected = BTreeMap::<&str, u64>::new();
    for (address, packets) in [
        (localhost, malformed_ipv4()),
        (localhost6, malformed_ipv6()),
    ] {
        let sender = RawSender::new(&namespace, address)?;
        for (reason, packet) in packets {
            sender
                .send(&packet)
                .map_err(|error| anyhow::anyhow!("{reason}: {error}"))?;
            *expected.entry(reason).or_default() += 1;
        }
    }
    RawSender::new(&namespace, localhost)?.send(&well_formed())?;
    for ((name, receiver), expected) in ["TCP", "UDP"].iter().zip(&receivers).zip(arriving) {
        let arrived = receiver.count(expected, VAIN)?;
        ensure!(
            arrived == expected,
            "{arrived} packets of {name} arrived instead of {expected}"
        );
    }

    let ledger = firewall.finish()?.total;
    ledger.check_reconciled()?;
    let found = ledger.malformed_reasons();
    ensure!(found == expected, "counted {found:?}, sent {expected:?}");
    let malformed: u64 = expected.values().sum();
    let well_formed = ledger.received - malformed;
    ensure!(well_formed >= 1, "the well-formed packet was not received");
    for (name, passed) in [("accept", well_formed), ("drop", 0)] {
        let wanted = passed + if name == verdict { malformed } else { 0 };
        ensure!(
            ledger.verdict(name) == wanted,
            "{name} {} instead of {wanted}",
            ledger.verdict(name)
        );
    }
    Ok(())
}

fn fail_closed(subject: &Subject) -> anyhow::Result<()> {
    const WELL_FORMED: [usize; 2] = [0, 1];
    play(subject, "closed", "drop", WELL_FORMED)
}

fn fail_open(subject: &Subject) -> anyhow::Result<()> {
    // The kernel's own reassembly drops the overflowing fragment, so it does not arrive.
    const ALL_BUT_THE_FRAGMENT: [usize; 2] = [3, 4];
    play(subject, "open", "accept", ALL_BUT_THE_FRAGMENT)
}
