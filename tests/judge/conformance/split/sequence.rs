// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets for a policy with names: single packets around its values, and connections whose clients show names.

use std::collections::HashMap;

use twinwall_judge::boundary::{packets, told};
use twinwall_judge::connection::{steps, Ends, Speech};
use twinwall_judge::field::Field;
use twinwall_judge::packet::{Layer4, Packet};
use twinwall_judge::random::Random;
use twinwall_judge::scan::Scanned;

use crate::cell::{Shot, Way, INTERFACES, OWN, WAYS};
use crate::subject::STATE_BITS;

/// A packet, and the connection that it belongs to.
#[derive(Clone, Debug)]
pub struct Act {
    pub shot: Shot,
    /// Number of the connection: packets with the same protocol, addresses and ports share it. None for packets without
    /// ports.
    pub connection: Option<u32>,
}

/// Protocol, addresses and ports of a packet, equal for both directions.
type Flow = (u8, [(u128, u16); 2]);

fn flow(packet: &Packet) -> Option<Flow> {
    let (Layer4::Tcp {
        source,
        destination,
        ..
    }
    | Layer4::Udp {
        source,
        destination,
        ..
    }) = packet.layer4
    else {
        return None;
    };
    let mut ends = [(packet.source, source), (packet.destination, destination)];
    ends.sort_unstable();
    Some((packet.protocol, ends))
}

/// Host names that clients show beside those of the policy. The empty name stands for a client that shows no name.
const HOSTS: [&str; 4] = ["", "other.example", "denied.example", "x.b.example"];
const SPEECHES: [Speech; 6] = [
    Speech::Tls,
    Speech::Quic,
    Speech::Http,
    Speech::DnsOverTcp,
    Speech::DnsOverUdp,
    Speech::Other,
];
/// Usual server ports of each entry of [`SPEECHES`]. A connection has one of them with a probability of at least 70 %.
const PORTS: [&[u16]; 6] = [&[443], &[443], &[80, 8080], &[53], &[53], &[22, 443, 80]];

/// Returns the host names in a policy's text: the quoted words that contain a dot, with `sub.x` for each `*.x`.
fn hosts(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let is_host = |one: &&str| {
        let is_letter = |letter: char| {
            letter.is_ascii_alphanumeric() || [b'.', b'-', b'*'].contains(&(letter as u8))
        };
        one.contains('.') && one.len() < 64 && one.chars().all(is_letter)
    };
    let mut found: Vec<String> = Vec::new();
    for host in quoted.filter(is_host) {
        found.push(match host.strip_prefix("*.") {
            Some(rest) => format!("sub.{rest}"),
            None => host.to_owned(),
        });
    }
    found
}

/// Returns the ways (paths through the cell) that lead through at least one of a policy's hooks.
fn ways(scanned: &Scanned) -> Vec<Way> {
    let meets = |way: &Way| {
        let mut hooks = scanned.hooks.iter();
        hooks.any(|hook| way.meets(*hook))
    };
    WAYS.into_iter().filter(meets).collect()
}

/// Returns a random mark and owner (user and group ID) for a packet. They are not part of its bytes.
fn outside(random: &mut Random, scanned: &Scanned) -> (u32, u32) {
    let owner = told(random, &scanned.groups, Field::MetaSkuid, &INTERFACES) as u32;
    let mark = match random.percent(60) {
        true => 0,
        false => told(random, &scanned.groups, Field::MetaMark, &INTERFACES) as u32,
    };
    // -1 is no owner.
    (mark, if owner == u32::MAX { 0 } else { owner })
}

/// A packet before it has its number and bytes.
struct Plan {
    way: Way,
    packet: Packet,
    mark: u32,
    owner: u32,
}

fn connection(random: &mut Random, scanned: &Scanned, way: Way) -> Vec<Plan> {
    let like = packets(random, &scanned.groups, 1).remove(0);
    let mut ends = Ends::of(&like, random);
    let at = random.below(SPEECHES.len());
    if random.percent(70) {
        ends.ports.1 = *random.pick(PORTS[at]);
    }
    let own = if ends.version == 4 { OWN.0 } else { OWN.1 };
    match way {
        Way::Out => ends.client = own,
        _ if ends.client == own => ends.client ^= 2,
        _ => {}
    }
    let mut known = hosts(&scanned.text);
    known.extend(HOSTS.map(str::to_owned));
    let host = random.pick(&known).clone();
    let (mark, owner) = outside(random, scanned);
    let plan = |step: twinwall_judge::connection::Step| Plan {
        way: if step.is_servers { way.back() } else { way },
        packet: step.packet,
        mark,
        owner,
    };
    let made = steps(random, &ends, SPEECHES[at], &host);
    made.into_iter().map(plan).collect()
}

/// Returns packets for a policy. Each way through one of its hooks gets `singles` single packets and `connections`
/// connections. Their packets are interleaved.
/// - mask: bits that are 0 in the marks of all packets.
pub fn acts(
    random: &mut Random,
    scanned: &Scanned,
    (singles, connections): (usize, usize),
    mask: u32,
) -> Vec<Act> {
    let mut waiting: Vec<Vec<Plan>> = Vec::new();
    for way in ways(scanned) {
        for packet in packets(random, &scanned.groups, singles) {
            let (mark, owner) = outside(random, scanned);
            waiting.push(vec![Plan {
                way,
                packet,
                mark,
                owner,
            }]);
        }
        for _ in 0..connections {
            waiting.push(connection(random, scanned, way));
        }
    }
    let mut acts: Vec<Act> = Vec::new();
    let mut flows: HashMap<Flow, (u32, Way)> = HashMap::new();
    for plans in &mut waiting {
        plans.reverse();
    }
    while !waiting.is_empty() {
        let at = random.below(waiting.len().min(4));
        let Some(mut plan) = waiting[at].pop() else {
            waiting.remove(at);
            continue;
        };
        let count = flows.len() as u32;
        let known = flow(&plan.packet).map(|flow| *flows.entry(flow).or_insert((count, plan.way)));
        // A connection stays between its interfaces.
        if known.is_some_and(|(_, way)| way != plan.way && way.back() != plan.way) {
            continue;
        }
        plan.packet.number = acts.len() as u32 + 1;
        acts.push(Act {
            shot: Shot {
                number: plan.packet.number,
                way: plan.way,
                bytes: plan.packet.bytes(),
                mark: plan.mark & !mask & !STATE_BITS,
                owner: plan.owner,
            },
            connection: known.map(|(number, _)| number),
        });
    }
    acts
}
