// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that can't be read: with malformed headers, or with headers after the copied bytes. --fail has a mode for
//! each of these situations.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::ensure;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::packets::{ipv4, ipv6, tcp, udp, RawReceiver, RawSender};
use testbed::place::{namespace, restore};
use testbed::traffic::VAIN;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::scene::check_contract;

pub const ROWS: &[Row] = &[
    ("malformed-closed", |twin| malformed(twin, "closed")),
    ("malformed-open", |twin| malformed(twin, "open")),
    ("truncated-closed", |twin| truncated(twin, "closed")),
    ("truncated-open", |twin| truncated(twin, "open")),
];

const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;

/// Returns a value of --fail: a mode for one situation and the opposite mode for the other, so that a mix-up shows.
fn modes(situation: &str, mode: &str, other: &str) -> String {
    let opposite = if mode == "open" { "closed" } else { "open" };
    format!("{situation}={mode},{other}={opposite}")
}

fn verb(mode: &str) -> (&'static str, &'static str) {
    match mode {
        "open" => ("accepted", "accept"),
        _ => ("dropped", "drop"),
    }
}

fn malformed(twin: Twin, mode: &str) -> anyhow::Result<()> {
    const SENT: usize = 5;
    let namespace = namespace()?;
    restore(&namespace, "iptables", "-A OUTPUT -p udp -j NFQUEUE")?;
    let modes = modes("malformed", mode, "truncated");
    let arguments = [&["--fail", &modes][..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let (happens, verdict) = verb(mode);
    let really = format!("{happens}, counted by reason, as far as the first 128 bytes show");
    check_contract(&firewall, "malformed", [mode, &really])?;
    let receiver = RawReceiver::new(&namespace, UDP)?;
    let sender = RawSender::new(&namespace, IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    for _ in 0..SENT {
        // The UDP length is less than that of the UDP header.
        sender.send(&ipv4(UDP, 0, &udp(4, b"abcd")))?;
    }
    let expected = if mode == "open" { SENT } else { 0 };
    let arrived = receiver.count(expected, VAIN)?;
    ensure!(arrived == expected, "{arrived} arrived of {expected}");
    let ledger = firewall.finish()?.total;
    ledger.check_reconciled()?;
    ensure!(ledger.malformed["udp-length"] == SENT as u64, "{ledger:?}");
    ensure!(ledger.verdict(verdict) == SENT as u64, "{ledger:?}");
    Ok(())
}

/// Returns an IPv6 packet with long destination options before its TCP header. The kernel's copy of the packet ends
/// before the TCP header if the policy matches only IP headers and ports.
fn behind_options() -> Vec<u8> {
    const DESTINATION_OPTIONS: u8 = 60;
    const PAD_N: u8 = 1;
    const OPTIONS_BYTES: u8 = 248;
    let mut payload = vec![TCP, OPTIONS_BYTES / 8 - 1, PAD_N, OPTIONS_BYTES - 4];
    payload.resize(OPTIONS_BYTES.into(), 0);
    payload.extend(tcp(5));
    ipv6(6, DESTINATION_OPTIONS, payload.len() as u16, &payload)
}

fn truncated(twin: Twin, mode: &str) -> anyhow::Result<()> {
    const POLICY: &str = "table inet chaos {\n\
        \tchain output {\n\
        \t\ttype filter hook output priority 0; policy accept;\n\
        \t\ttcp dport 9999 drop\n\
        \t\tip6 nexthdr ipv6-icmp accept\n\
        \t}\n\
        }\n";
    let folder = Folder::shared()?;
    let policy = folder.file("ports.nft");
    fs::write(&policy, POLICY)?;
    let namespace = namespace()?;
    // The rule matches only this packet and possible responses to it.
    restore(
        &namespace,
        "ip6tables",
        "-A OUTPUT -s ::1 -d ::1 -m length --length 300:400 -j NFQUEUE",
    )?;
    let modes = modes("truncated", mode, "malformed");
    let arguments = [&["--policy", &policy, "--fail", &modes][..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let (happens, verdict) = verb(mode);
    let really = format!("{happens}, counted as truncated or undecidable");
    check_contract(&firewall, "truncated", [mode, &really])?;
    RawSender::new(&namespace, IpAddr::V6(Ipv6Addr::LOCALHOST))?.send(&behind_options())?;
    let stats = firewall.finish()?;
    let ledger = &stats.total;
    ledger.check_reconciled()?;
    ensure!(
        ledger.received == 1 && ledger.beyond_copy == 1,
        "{ledger:?}"
    );
    ensure!(ledger.verdict(verdict) == 1, "{ledger:?}");
    ensure!(
        ledger.undecidable == 1,
        "not counted as undecidable: {ledger:?}"
    );
    Ok(())
}
