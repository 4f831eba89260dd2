// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows whose verdict would change.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::print;
use rust_firewall::policy::Type;
use serde::Serialize;

use super::engine::Decision;
use crate::units::{count, thousands};

/// Maximum number of listed changes (a flow with its old and new decision), and of followed connections: a flood of
/// invented addresses has an unlimited number.
pub const FLOWS_MAX: usize = 65536;
/// Maximum number of flows that the text shows for one change (an old and a new decision).
const FLOWS_SHOWN: usize = 20;

/// One direction of a connection, as far as a packet shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct FlowKey {
    src_ip: Option<IpAddr>,
    src_port: Option<u16>,
    dest_ip: Option<IpAddr>,
    dest_port: Option<u16>,
    /// Protocol name as in policies: "tcp".
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
    /// Returns the flow of a packet; for a malformed packet, its readable parts.
    /// - original: length of the complete packet in bytes.
    pub fn of(bytes: &[u8], original: u32) -> FlowKey {
        let mut parsed = Packet::default();
        packet::parse(bytes, original, &mut parsed);
        let addresses = packet::addresses(&parsed);
        FlowKey {
            src_ip: addresses.and_then(|(source, _)| address(source)),
            src_port: parsed.has_ports.then_some(parsed.source_port),
            dest_ip: addresses.and_then(|(_, destination)| address(destination)),
            dest_port: parsed.has_ports.then_some(parsed.destination_port),
            proto: print::value(Type::InetProto, parsed.protocol.into()),
        }
    }

    pub fn has_ports(&self) -> bool {
        self.src_port.is_some()
    }

    /// Returns the key of the opposite direction.
    pub fn reversed(&self) -> FlowKey {
        FlowKey {
            src_ip: self.dest_ip,
            src_port: self.dest_port,
            dest_ip: self.src_ip,
            dest_port: self.src_port,
            proto: self.proto.clone(),
        }
    }
}

/// Formats an end of a flow: "192.0.2.1:80", "[2001:db8::1]:80", "192.0.2.1"; "?" without an address.
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
    /// True if one of the packets met a limit or quota.
    timed: bool,
}

/// Counts of input that is skipped, unreadable or not compared, and the time of the first compared packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Number of frames that are not IP.
    pub skipped: u64,
    /// Number of packets whose comment by `fwctl record` is invalid. Their metadata come from the command line's
    /// options.
    pub damaged: u64,
    /// Number of packets that are not compared, since a policy reads names, and the capture does not have their
    /// connection from the first packet on without a gap.
    pub nameless: u64,
    /// Time of the first compared packet in the capture's order, nanoseconds since 1970; None without such a packet.
    pub first_ns: Option<u64>,
}

/// Changed verdicts found so far.
#[derive(Default)]
pub struct Flips {
    flips: HashMap<Flip, Seen>,
    /// Number of compared packets.
    pub packets: u64,
    flipped: u64,
    /// Number of packets with a changed verdict whose flow is not listed, because FLOWS_MAX changes are listed already.
    unlisted: u64,
}

impl Flips {
    /// Counts a compared packet. If the new verdict differs from the old one, also adds the flow, up to
    /// `FLOWS_MAX` changed flows.
    /// - was, will: decisions of the old and of the new policy.
    /// - timed: true if the packet met a limit or a quota of one of the policies.
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

    /// Groups flows by old and new decision (verdict and origin). Groups and flows with the most packets come first.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: HashMap<(&Decision, &Decision), Group> = HashMap::new();
        for (flip, seen) in &self.flips {
            let group = groups.entry((&flip.was, &flip.will)).or_insert(Group {
                was: &flip.was,
                will: &flip.will,
                packets: 0,
                flows: Vec::new(),
            });
            group.packets += seen.packets;
            group.flows.push((&flip.flow, seen));
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        let most = |a: u64, b: u64| b.cmp(&a);
        groups
            .sort_by(|a, b| most(a.packets, b.packets).then((a.was, a.will).cmp(&(b.was, b.will))));
        for group in &mut groups {
            let flows = &mut group.flows;
            flows.sort_by(|(a, a_seen), (b, b_seen)| {
                most(a_seen.packets, b_seen.packets).then(a.cmp(b))
            });
        }
        groups
    }

    /// Returns the number of listed flows that change. A flow counts once, whatever rules its packets match.
    fn flows(&self) -> usize {
        let flows: HashSet<&FlowKey> = self.flips.keys().map(|flip| &flip.flow).collect();
        flows.len()
    }

    /// Formats the result for --json: a line for each flow and change of its decision, then the totals.
    /// - left: counts of skipped, damaged and not compared packets, and the time of the first compared packet, for the
    ///   totals.
    /// - missed: number of packets that came too fast to be compared.
    pub fn json(&self, left: Left, missed: u64) -> Vec<String> {
        let groups = self.groups();
        let flips = groups.iter().flat_map(|group| {
            group.flows.iter().map(|(flow, seen)| FlipObject {
                flow,
                packets: seen.packets,
                was: group.was,
                will: group.will,
                time_dependent: seen.timed,
            })
        });
        let lines = flips.map(|flip| serde_json::to_string(&flip));
        let sums = SumsObject {
            packets: self.packets,
            flipped: self.flipped,
            flows: self.flows(),
            unlisted: self.unlisted,
            skipped: left.skipped,
            damaged: left.damaged,
            nameless: left.nameless,
            first_ns: left.first_ns,
            missed,
        };
        let lines = lines.chain([serde_json::to_string(&sums)]);
        // It can't fail: all keys are strings.
        lines.map(|line| line.unwrap_or_default()).collect()
    }

    /// Formats the changes for people.
    pub fn text(&self) -> Vec<String> {
        let compared = count(self.packets, "packet");
        if !self.any() {
            return vec![format!("no verdict would flip: {compared} compared")];
        }
        let mut out = Vec::new();
        for Group {
            was, will, flows, ..
        } in self.groups()
        {
            out.push(format!("now {was}, then {will}:"));
            for (flow, seen) in flows.iter().take(FLOWS_SHOWN) {
                let mark = if seen.timed { " *" } else { "" };
                let packets = count(seen.packets, "packet");
                out.push(format!("  {flow}, {packets}{mark}"));
            }
            if let Some(more @ 1..) = flows.len().checked_sub(FLOWS_SHOWN) {
                let more = count(more as u64, "more flow");
                out.push(format!("  and {more}: --json has all"));
            }
        }
        if self.unlisted > 0 {
            out.push(format!(
                "and {} of further flows",
                count(self.unlisted, "packet")
            ));
        }
        if self.flips.values().any(|seen| seen.timed) {
            let text = "* by a limit or a quota: it depends on the time and on packets before";
            out.push(text.to_owned());
        }
        out.push(format!(
            "{} would flip: {} of {compared}",
            count(self.flows() as u64, "flow"),
            thousands(self.flipped)
        ));
        out
    }
}

/// Flows with the same old and new decision.
struct Group<'a> {
    was: &'a Decision,
    will: &'a Decision,
    packets: u64,
    flows: Vec<(&'a FlowKey, &'a Seen)>,
}

#[derive(Serialize)]
struct FlipObject<'a> {
    flow: &'a FlowKey,
    packets: u64,
    was: &'a Decision,
    will: &'a Decision,
    time_dependent: bool,
}

#[derive(Serialize)]
struct SumsObject {
    packets: u64,
    flipped: u64,
    flows: usize,
    unlisted: u64,
    skipped: u64,
    damaged: u64,
    nameless: u64,
    first_ns: Option<u64>,
    missed: u64,
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
        assert_eq!(flips.text(), ["no verdict would flip: 1 packet compared"]);
    }

    #[test]
    fn the_flow_with_the_most_packets_comes_first() {
        let mut flips = Flips::default();
        for port in [1, 2, 2] {
            flips.note(flow(port), decision("accept"), decision("drop"), port == 1);
        }
        assert_eq!(
            flips.text().join("\n"),
            "now accept by a.nft:1, then drop by a.nft:1:\n  127.0.0.1:2 > [::1]:80 tcp, 2 packets\n  \
             127.0.0.1:1 > [::1]:80 tcp, 1 packet *\n* by a limit or a quota: it depends on the time \
             and on packets before\n2 flows would flip: 3 of 3 packets"
        );
    }

    #[test]
    fn a_flow_that_flips_in_two_ways_counts_once() {
        let mut flips = Flips::default();
        flips.note(flow(1), decision("accept"), decision("drop"), false);
        flips.note(flow(1), decision("drop"), decision("accept"), false);
        let json = flips.json(
            Left {
                skipped: 3,
                damaged: 5,
                nameless: 6,
                first_ns: None,
            },
            4,
        );
        let sums =
            "{\"packets\":2,\"flipped\":2,\"flows\":1,\"unlisted\":0,\"skipped\":3,\"damaged\":5,\"nameless\":6,\"first_ns\":null,\"missed\":4}";
        assert_eq!(json.last().map(String::as_str), Some(sums));
        assert_eq!(json.len(), 3);
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
        let text = flips.text().join("\n");
        assert!(
            text.contains("  and 65,516 more flows: --json has all\n"),
            "{text}"
        );
        assert!(text.contains("and 10 packets of further flows\n"), "{text}");
    }
}
