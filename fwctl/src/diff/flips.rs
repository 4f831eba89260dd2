// SPDX-License-Identifier: GPL-2.0-or-later
//! The flows whose verdict would flip.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::Type;
use rust_firewall::print;
use rust_firewall::reject;
use serde::Serialize;
use serde_json::json;

use super::engine::Decision;
use crate::units::{count, thousands};

/// Flows that are told one by one: a flood of invented addresses has no end of them.
const FLOWS_MAX: usize = 65536;

/// A direction of a connection, as far as a packet tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct FlowKey {
    src_ip: Option<IpAddr>,
    src_port: Option<u16>,
    dest_ip: Option<IpAddr>,
    dest_port: Option<u16>,
    /// As policies have it: "tcp".
    proto: String,
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

impl FlowKey {
    /// The flow of a packet; of one that is malformed, what can be read.
    pub fn of(bytes: &[u8], original: u32) -> FlowKey {
        let mut parsed = Packet::default();
        packet::parse(bytes, original, &mut parsed);
        let addresses = reject::addresses_of(&parsed);
        FlowKey {
            src_ip: addresses.and_then(|(source, _)| address(source)),
            src_port: parsed.has_ports.then_some(parsed.source_port),
            dest_ip: addresses.and_then(|(_, destination)| address(destination)),
            dest_port: parsed.has_ports.then_some(parsed.destination_port),
            proto: print::value(Type::InetProto, parsed.protocol.into()),
        }
    }
}

/// "192.0.2.1:80", "[2001:db8::1]:80", "192.0.2.1".
fn end(ip: Option<IpAddr>, port: Option<u16>) -> String {
    match (ip, port) {
        (Some(ip), Some(port)) => std::net::SocketAddr::new(ip, port).to_string(),
        (Some(ip), None) => ip.to_string(),
        _ => "?".to_owned(),
    }
}

impl std::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let source = end(self.src_ip, self.src_port);
        let destination = end(self.dest_ip, self.dest_port);
        write!(f, "{source} > {destination} {}", self.proto)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Flip {
    flow: FlowKey,
    was: Decision,
    will: Decision,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    packets: u64,
    /// A limit or quota was met by at least one of them.
    timed: bool,
}

/// What has been found.
#[derive(Default)]
pub struct Flips {
    flips: HashMap<Flip, Seen>,
    /// All that were compared.
    pub packets: u64,
    flipped: u64,
    /// Flipped packets of flows beyond FLOWS_MAX.
    unlisted: u64,
}

impl Flips {
    /// Notes a packet. timed: its verdict depends on packets before or on the time.
    pub fn note(&mut self, flow: FlowKey, was: Decision, will: Decision, timed: bool) {
        self.packets += 1;
        if was.verdict == will.verdict {
            return;
        }
        self.flipped += 1;
        let flip = Flip { flow, was, will };
        if self.flips.len() >= FLOWS_MAX && !self.flips.contains_key(&flip) {
            self.unlisted += 1;
            return;
        }
        let seen = self.flips.entry(flip).or_default();
        seen.packets += 1;
        seen.timed |= timed;
    }

    pub fn any(&self) -> bool {
        self.flipped > 0
    }

    /// Those with the most packets first.
    fn sorted(&self) -> Vec<(&Flip, &Seen)> {
        let mut all: Vec<_> = self.flips.iter().collect();
        all.sort_by(|(a, seen_a), (b, seen_b)| seen_b.packets.cmp(&seen_a.packets).then(a.cmp(b)));
        all
    }

    /// For --json: a line each, then the sums.
    pub fn json(&self, skipped: u64, missed: u64) -> String {
        let decision =
            |decision: &Decision| json!({"verdict": decision.verdict, "by": decision.by});
        let mut out = String::new();
        for (flip, seen) in self.sorted() {
            let line = json!({
                "flow": flip.flow,
                "packets": seen.packets,
                "was": decision(&flip.was),
                "will": decision(&flip.will),
                "time_dependent": seen.timed,
            });
            out.push_str(&format!("{line}\n"));
        }
        let sums = json!({
            "packets": self.packets,
            "flows": self.flips.len(),
            "flipped": self.flipped,
            "unlisted": self.unlisted,
            "skipped": skipped,
            "missed": missed,
        });
        format!("{out}{sums}\n")
    }

    /// The flips as people read them.
    pub fn text(&self) -> String {
        let compared = count(self.packets, "packet");
        if !self.any() {
            return format!("no verdict would flip: {compared} compared\n");
        }
        let mut out = String::new();
        let mut timed = false;
        for (flip, seen) in self.sorted() {
            let mark = if seen.timed { " *" } else { "" };
            timed |= seen.timed;
            out.push_str(&format!(
                "{}, {}{mark}\n  now  {} by {}\n  then {} by {}\n",
                flip.flow,
                count(seen.packets, "packet"),
                flip.was.verdict,
                flip.was.by,
                flip.will.verdict,
                flip.will.by
            ));
        }
        if self.unlisted > 0 {
            let further = count(self.unlisted, "packet");
            out.push_str(&format!("and {further} of further flows\n"));
        }
        if timed {
            out.push_str(
                "* met a limit or a quota: that depends on the time and on packets before\n",
            );
        }
        out.push_str(&format!(
            "{} would flip: {} of {compared}\n",
            count(self.flips.len() as u64, "flow"),
            thousands(self.flipped)
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(verdict: &str) -> Decision {
        Decision {
            verdict: verdict.to_owned(),
            by: "a.nft:1".to_owned(),
        }
    }

    fn flow(port: u16) -> FlowKey {
        FlowKey {
            src_ip: Some(Ipv4Addr::LOCALHOST.into()),
            src_port: Some(port),
            dest_ip: Some(Ipv6Addr::LOCALHOST.into()),
            dest_port: Some(80),
            proto: "tcp".to_owned(),
        }
    }

    #[test]
    fn equal_verdicts_are_no_flip() {
        let mut flips = Flips::default();
        flips.note(flow(1), decision("accept"), decision("accept"), true);
        assert!(!flips.any());
        assert_eq!(flips.text(), "no verdict would flip: 1 packet compared\n");
    }

    #[test]
    fn the_flow_with_the_most_packets_comes_first() {
        let mut flips = Flips::default();
        for port in [1, 2, 2] {
            flips.note(flow(port), decision("accept"), decision("drop"), port == 1);
        }
        let text = flips.text();
        let first = text.lines().next().unwrap();
        assert_eq!(first, "127.0.0.1:2 > [::1]:80 tcp, 2 packets");
        assert!(
            text.contains("127.0.0.1:1 > [::1]:80 tcp, 1 packet *\n"),
            "{text}"
        );
        assert!(
            text.ends_with("2 flows would flip: 3 of 3 packets\n"),
            "{text}"
        );
    }

    #[test]
    fn a_flood_of_flows_is_bounded() {
        let mut flips = Flips::default();
        for number in 0..FLOWS_MAX as u32 + 10 {
            let mut flow = flow(1);
            flow.src_ip = Some(Ipv4Addr::from(number).into());
            flips.note(flow, decision("accept"), decision("drop"), false);
        }
        assert_eq!((flips.flips.len(), flips.unlisted), (FLOWS_MAX, 10));
    }
}
