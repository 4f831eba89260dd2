// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the output of `explain --json` with a vector.

use anyhow::{ensure, Context};
use serde::Deserialize;

use super::vector::{By, Counter, Send, Vector};

/// JSON object of a packet in the output of `explain`. Further members are ignored here: the twins' outputs are also
/// compared byte by byte.
#[derive(Deserialize)]
struct Packet {
    packet: usize,
    verdict: String,
    mark: Option<u32>,
    reject: Option<String>,
    by: String,
}

/// Last JSON object in the output of `explain`: the totals of all packets.
#[derive(Deserialize)]
struct Sum {
    counters: Vec<Count>,
    packets: usize,
    accepted: usize,
    dropped: usize,
    rejected: usize,
}

#[derive(Deserialize)]
struct Count {
    rule: String,
    statement: u32,
    packets: u64,
    bytes: u64,
}

/// Checks that the output of `explain --json` has the verdicts, totals and counters of a vector.
/// - lines: output of a twin.
/// - policy: name of the policy's file.
pub fn check(lines: &str, policy: &str, vector: &Vector) -> anyhow::Result<()> {
    let lines: Vec<&str> = lines.lines().collect();
    let (sum, packets) = lines.split_last().context("no line")?;
    ensure!(
        packets.len() == vector.sends.len(),
        "{} packets of {}",
        packets.len(),
        vector.sends.len()
    );
    for (index, (line, send)) in packets.iter().zip(&vector.sends).enumerate() {
        let packet: Packet = serde_json::from_str(line).with_context(|| line.to_string())?;
        ensure!(packet.packet == index + 1, "packet {} of {line}", index + 1);
        check_packet(&packet, send, policy)
            .with_context(|| format!("packet {}: {line}", index + 1))?;
    }
    let sum: Sum = serde_json::from_str(sum).with_context(|| sum.to_string())?;
    check_sum(&sum, vector)?;
    check_counters(&sum.counters, policy, &vector.counters)
}

fn check_packet(packet: &Packet, send: &Send, policy: &str) -> anyhow::Result<()> {
    let wanted = &send.verdict;
    ensure!(packet.verdict == *wanted, "expected {wanted}");
    if let Some(reject) = &send.reject {
        let found = packet.reject.as_deref().unwrap_or("silent");
        ensure!(found == reject, "expected reject {reject}");
    } else {
        ensure!(packet.reject.is_none(), "expected no answer");
    }
    if send.verdict == "accept" {
        ensure!(packet.mark == send.mark, "expected mark {:?}", send.mark);
    }
    let agrees = match send.by {
        None => true,
        Some(By::Rule(line)) => packet.by == format!("{policy}:{line}"),
        Some(By::Policy) => packet.by.starts_with("policy "),
        Some(By::Default) => packet.by == "default",
        Some(By::Fail) => packet.by == "fail",
        Some(By::Undecided) => packet.by == "undecided",
    };
    ensure!(agrees, "expected by {:?}", send.by);
    Ok(())
}

fn check_sum(sum: &Sum, vector: &Vector) -> anyhow::Result<()> {
    let count = |verdict| {
        let has = |send: &&Send| send.verdict == verdict;
        vector.sends.iter().filter(has).count()
    };
    let found = [sum.packets, sum.accepted, sum.dropped, sum.rejected];
    let wanted = [
        vector.sends.len(),
        count("accept"),
        count("drop"),
        count("reject"),
    ];
    ensure!(
        found == wanted,
        "packets, accepted, dropped, rejected are {found:?}, expected {wanted:?}"
    );
    Ok(())
}

fn check_counters(found: &[Count], policy: &str, wanted: &[Counter]) -> anyhow::Result<()> {
    let mut counters = Vec::new();
    for count in found {
        let (file, line) = count.rule.split_once(':').context("a place")?;
        ensure!(file == policy, "a rule of {file}");
        let counter = Counter {
            line: line.parse()?,
            packets: count.packets,
            bytes: count.bytes,
        };
        counters.push((counter.line, count.statement, counter));
    }
    // Sorts them in the order of the text, as in a vector.
    counters.sort_by_key(|(line, statement, _)| (*line, *statement));
    let found: Vec<Counter> = counters
        .into_iter()
        .map(|(_, _, counter)| counter)
        .collect();
    ensure!(
        found == wanted,
        "counters are\n{}expected\n{}",
        shown(&found),
        shown(wanted)
    );
    Ok(())
}

fn shown(counters: &[Counter]) -> String {
    let line = |c: &Counter| {
        format!(
            "counter {} packets {} bytes {}\n",
            c.line, c.packets, c.bytes
        )
    };
    counters.iter().map(line).collect()
}
