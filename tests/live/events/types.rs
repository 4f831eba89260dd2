// SPDX-License-Identifier: GPL-2.0-or-later
//! Contents of the lines about events.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::packets::{ipv4, tcp, udp, RawSender};
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::twin::{Twin, TWINS};
use twinwall_tests::case::Row;

use super::running::{
    count_type, is_own, is_type, lines_of, missed, send, wait_for, wait_for_drops, Place, ACCEPTED,
    DROPPED, DROP_LINE, LOGGED, LOG_LINE, REJECTED,
};

pub const ROWS: &[Row] = &[
    ("a-line-for-each-packet-of-interest", each_type),
    ("the-rate-is-kept-and-the-rest-is-told", rate),
    ("a-line-is-told-by-the-policy-that-decided", generations),
];

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;

/// Returns a datagram to a port. All datagrams have the same data.
fn datagram(port: u16) -> Vec<u8> {
    let mut datagram = udp(12, b"same");
    datagram[2..4].copy_from_slice(&port.to_be_bytes());
    ipv4(UDP, 0, &datagram)
}

/// Sends two packets to DROPPED, a packet each to REJECTED, LOGGED and ACCEPTED, and a malformed TCP packet. Waits
/// until all lines are written.
fn send_each(place: &Place, events: &str) -> anyhow::Result<()> {
    let sender = RawSender::new(&place.namespace, LOCALHOST)?;
    for port in [DROPPED, REJECTED, LOGGED, ACCEPTED] {
        sender.send(&datagram(port))?;
    }
    sender.send(&ipv4(TCP, 0, &tcp(4)))?;
    sender.send(&datagram(DROPPED))?;
    wait_for(events, "the last packet's line", |line| {
        is_type(line, "anomaly")
    })?;
    wait_for_drops(events, 2)
}

fn each_type(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let events = place.path("events.json");
    let firewall = place.start(twin, &events, &[])?;
    send_each(&place, &events)?;
    firewall.stop()?;
    let lines = lines_of(&events)?;
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["event_type"].as_str())
        .collect();
    ensure!(
        kinds == ["twinwall", "drop", "reject", "log", "anomaly", "drop", "twinwall"],
        "{kinds:?}"
    );
    ensure!(is_own(&lines[0], "started") && is_own(&lines[6], "stopped"));
    let policy = place.path("web.nft");
    let of = |line: u32| format!("{policy}:{line}");
    let expect = [
        (1, "/in_iface", Value::from("lo")),
        (1, "/src_ip", "127.0.0.1".into()),
        (1, "/src_port", 40000.into()),
        (1, "/dest_ip", "127.0.0.1".into()),
        (1, "/dest_port", DROPPED.into()),
        (1, "/proto", "UDP".into()),
        (1, "/drop/len", 32.into()),
        (1, "/drop/udplen", 12.into()),
        (1, "/twinwall/verdict", "drop".into()),
        (1, "/twinwall/by", "rule".into()),
        (1, "/twinwall/rule", of(DROP_LINE).into()),
        (1, "/twinwall/comment", "no \\ 1001".into()),
        (1, "/twinwall/table", "inet t".into()),
        (1, "/twinwall/chain", "c".into()),
        (1, "/twinwall/hook", "input".into()),
        (1, "/twinwall/queue", 0.into()),
        (1, "/twinwall/generation", 1.into()),
        (2, "/reject/reply", "icmp port-unreachable".into()),
        (2, "/twinwall/verdict", "reject".into()),
        (3, "/log/action", "allowed".into()),
        (3, "/log/prefix", "seen: ".into()),
        (3, "/log/level", "info".into()),
        (3, "/twinwall/rule", of(LOG_LINE).into()),
        (3, "/twinwall/verdict", "accept".into()),
        (4, "/anomaly/event", "decoder.tcp-data-offset".into()),
        (4, "/twinwall/by", "fail".into()),
        (4, "/twinwall/verdict", "drop".into()),
    ];
    for (line, pointer, value) in expect {
        let found = lines[line].pointer(pointer);
        ensure!(found == Some(&value), "{pointer} of {}", lines[line]);
    }
    let flow = lines[1]["flow_id"].as_u64().context("flow_id")?;
    ensure!(lines[5]["flow_id"] == flow && lines[2]["flow_id"] != flow);
    Ok(())
}

/// Checks that both twins' lines for the same packets differ only in the time.
pub fn same_bytes() -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut seen = Vec::new();
    for twin in TWINS {
        let events = place.path(twin.name());
        let firewall = place.start(twin, &events, &["--default", "drop"])?;
        send_each(&place, &events)?;
        firewall.stop()?;
        let text = std::fs::read_to_string(&events)?;
        let lines = text
            .lines()
            .filter(|line| !line.contains("\"event_type\":\"twinwall\""));
        let timeless = lines.map(|line| {
            let (time, rest) =
                line.split_at("{\"timestamp\":\"2026-01-01T00:00:00.000000+0000\"".len());
            ensure!(time.ends_with("+0000\""), "{line}");
            Ok(rest.to_owned())
        });
        seen.push(timeless.collect::<anyhow::Result<Vec<String>>>()?);
    }
    ensure!(seen[0].len() == 5, "{seen:?}");
    for (rust, c) in seen[0].iter().zip(&seen[1]) {
        ensure!(rust == c, "rust: {rust}\nc:    {c}");
    }
    Ok(())
}

fn rate(twin: Twin) -> anyhow::Result<()> {
    const RATE: u64 = 20;
    const PACKETS: u64 = 2000;
    let place = Place::new()?;
    let events = place.path("events.json");
    let firewall = place.start(twin, &events, &["--events-rate", "20"])?;
    let begin = std::time::Instant::now();
    send(&place.client()?, DROPPED, PACKETS);
    wait_for(&events, "what was left out is told", |line| {
        is_own(line, "left_out")
    })?;
    let dropped = firewall.stop()?.total.verdict("drop");
    let seconds = begin.elapsed().as_secs() + 2;
    let lines = lines_of(&events)?;
    let written = count_type(&lines, "drop");
    ensure!(
        (RATE..=RATE * (seconds + 1)).contains(&written),
        "{written} lines in {seconds} s"
    );
    let left_out = missed(&lines, "left_out");
    ensure!(
        written + left_out == dropped,
        "{written} written, {left_out} left out of {dropped}"
    );
    Ok(())
}

/// Returns a policy that drops packets to port DROPPED. The generation determines the line of its rule.
fn policy_of(generation: u64) -> String {
    let lines = "\n".repeat(generation as usize);
    format!(
        "table inet t {{ chain c {{ type filter hook input priority 0; policy accept;{lines}\
         udp dport {DROPPED} drop comment \"{generation}\"\n}}\n}}\n"
    )
}

/// Reloads policies while packets arrive. Checks that each line names the rule and the line number of the generation
/// that decided.
fn generations(twin: Twin) -> anyhow::Result<()> {
    const RELOADS: u64 = 12;
    const PACKETS: u64 = 50;
    let place = Place::new()?;
    let events = place.path("events.json");
    let policy = place.path("web.nft");
    fs::write(&policy, policy_of(1))?;
    let firewall = place.start(twin, &events, &["--events-rate", "1000000"])?;
    let client = place.client()?;
    for generation in 2..=RELOADS {
        fs::write(&policy, policy_of(generation))?;
        send(&client, DROPPED, PACKETS);
        proc::signal(firewall.pid, libc::SIGHUP);
        send(&client, DROPPED, PACKETS);
        wait_for(&events, "the reload", |line| {
            is_own(line, "reload") && line["twinwall"]["generation"] == generation
        })?;
    }
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "{}", ended.stderr);
    let mut seen = BTreeSet::new();
    for line in lines_of(&events)? {
        if !is_type(&line, "drop") {
            continue;
        }
        let own = &line["twinwall"];
        let generation = own["generation"].as_u64().context("generation")?;
        let comment = generation.to_string();
        ensure!(
            own["comment"] == comment.as_str()
                && own["rule"] == format!("{policy}:{}", generation + 1),
            "{line}"
        );
        seen.insert(generation);
    }
    ensure!(seen.len() as u64 > RELOADS / 2, "{seen:?}");
    Ok(())
}
