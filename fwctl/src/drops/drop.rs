// SPDX-License-Identifier: GPL-2.0-or-later
//! A dropped packet as reported by a source, and sums of equal drops.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{json, Value};

/// Origin of a packet drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// A netfilter rule outside the firewall: nft, iptables.
    Rule,
    /// A queue: full, or without a listener.
    Queue,
    /// The firewall's verdict.
    Verdict,
    /// Another part of the kernel, before or after all of these; also a rule, if the kernel reports no reasons.
    Kernel,
}

impl Culprit {
    pub fn name(self) -> &'static str {
        match self {
            Culprit::Rule => "rule",
            Culprit::Queue => "queue",
            Culprit::Verdict => "verdict",
            Culprit::Kernel => "kernel",
        }
    }
}

/// Kernel functions in which a queue drops: nf_queue on Linux 5.x and 6.x, and its callees where it is inlined.
const QUEUE_PLACES: [&str; 4] = [
    "nf_queue",
    "__nf_queue",
    "nfqnl_enqueue_packet",
    "__nfqnl_enqueue_packet",
];
/// Kernel functions in which the firewall's verdict on a queued packet takes effect. A rule's drop happens elsewhere.
const VERDICT_PLACES: [&str; 4] = [
    "nf_reinject",
    "nfqnl_reinject",
    "nfqnl_recv_verdict",
    "nfqnl_recv_verdict_batch",
];
const RULE_REASON: &str = "NETFILTER_DROP";

/// A dropped packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drop {
    /// Kernel function that dropped the packet, without offset.
    pub place: String,
    /// Reason from the kernel's enum skb_drop_reason, without its prefix; empty if the kernel reports none (Linux 5.16
    /// or older never does).
    pub reason: String,
    /// Input interface; empty if there is none, or the source doesn't report it.
    pub interface: String,
    /// Flow, such as "udp 192.0.2.1:53 > 192.0.2.2:1024"; empty if the source doesn't report it.
    pub flow: String,
}

impl Drop {
    pub fn culprit(&self) -> Culprit {
        let among = |places: &[&str]| places.contains(&self.place.as_str());
        if among(&QUEUE_PLACES) {
            Culprit::Queue
        } else if among(&VERDICT_PLACES) {
            Culprit::Verdict
        } else if self.reason == RULE_REASON {
            Culprit::Rule
        } else {
            Culprit::Kernel
        }
    }
}

/// Returns true for the ethertypes of IPv4 and IPv6. Drops that are no IP packets have other numbers.
pub fn is_ip(protocol: u64) -> bool {
    [0x0800, 0x86dd].contains(&protocol)
}

/// Returns the function's name in a kernel symbol such as "nf_queue+0x1a4/0x2f0 [nf_queue]".
pub fn function_of(symbol: &str) -> &str {
    let end = symbol.find(['+', ' ']).unwrap_or(symbol.len());
    let name = &symbol[..end];
    // A function part split off by the compiler counts as that function.
    name.split('.').next().unwrap_or(name)
}

/// All drops of a run; drops with the same origin, place, reason and interface share a row.
#[derive(Default)]
pub struct Drops {
    rows: BTreeMap<(Culprit, String, String, String), Row>,
    /// Number of times that the drop monitor's socket was full; each time an unknown number of drops was lost.
    pub overruns: u64,
    /// Number of drops that the tracepoint did not report, because they came too fast.
    pub lost: u64,
}

struct Row {
    packets: u64,
    /// Flow of the latest drop with a known flow; empty if there is none.
    flow: String,
}

impl Drops {
    pub fn add(&mut self, drop: Drop) {
        let key = (drop.culprit(), drop.place, drop.reason, drop.interface);
        let row = self.rows.entry(key).or_insert(Row {
            packets: 0,
            flow: String::new(),
        });
        row.packets += 1;
        if !drop.flow.is_empty() {
            row.flow = drop.flow;
        }
    }

    /// Returns the cells of a table for people: packets, origin, place, reason, interface, flow. Rows with the most
    /// packets come first.
    pub fn cells(&self) -> Vec<[String; 6]> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.packets));
        let dash = |text: &str| match text {
            "" => "-".to_owned(),
            text => text.to_owned(),
        };
        rows.into_iter()
            .map(|((culprit, place, reason, interface), row)| {
                [
                    crate::units::thousands(row.packets),
                    culprit.name().to_owned(),
                    dash(place),
                    dash(reason),
                    dash(interface),
                    dash(&row.flow),
                ]
            })
            .collect()
    }

    /// Returns a JSON object for each row of drops.
    pub fn objects(&self) -> Vec<Value> {
        let object = |((culprit, place, reason, interface), row): (
            &(Culprit, String, String, String),
            &Row,
        )| {
            json!({
                "by": culprit.name(), "place": place, "reason": reason, "interface": interface,
                "packets": row.packets, "flow": row.flow,
            })
        };
        self.rows.iter().map(object).collect()
    }

    pub fn packets(&self, culprit: Culprit) -> u64 {
        let of_it = self.rows.iter().filter(|(key, _)| key.0 == culprit);
        of_it.map(|(_, row)| row.packets).sum()
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

fn ports(protocol: u8, transport: &[u8]) -> Option<(u16, u16)> {
    let bytes = transport
        .get(..4)
        .filter(|_| [TCP, UDP].contains(&protocol))?;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    Some((port(0), port(2)))
}

/// Returns the flow of a packet that begins with its IP header; empty if it can't be read.
pub fn flow_of(packet: &[u8]) -> String {
    let (protocol, source, destination, transport) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let address = |at: usize| {
                Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3])
            };
            // A later fragment has no ports.
            let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
            let rest = packet.get(header..).filter(|_| offset == 0);
            let rest = rest.unwrap_or_default();
            (
                packet[9],
                address(12).to_string(),
                address(16).to_string(),
                rest,
            )
        }
        Some(6) if packet.len() >= 40 => {
            let address = |at: usize| {
                let bytes: [u8; 16] = packet[at..at + 16].try_into().unwrap_or_default();
                format!("[{}]", Ipv6Addr::from(bytes))
            };
            (packet[6], address(8), address(24), &packet[40..])
        }
        _ => return String::new(),
    };
    let name = match protocol {
        TCP => "tcp".to_owned(),
        UDP => "udp".to_owned(),
        1 | 58 => "icmp".to_owned(),
        other => format!("protocol {other}"),
    };
    match ports(protocol, transport) {
        Some((from, to)) => format!("{name} {source}:{from} > {destination}:{to}"),
        None => format!("{name} {source} > {destination}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop(place: &str, reason: &str) -> Drop {
        Drop {
            place: place.into(),
            reason: reason.into(),
            ..Drop::default()
        }
    }

    #[test]
    fn who_dropped_is_seen_by_place_and_reason() {
        for (place, reason, culprit) in [
            ("nft_do_chain", "NETFILTER_DROP", Culprit::Rule),
            ("nf_queue", "NOT_SPECIFIED", Culprit::Queue),
            ("nf_reinject", "NOT_SPECIFIED", Culprit::Verdict),
            ("udp_queue_rcv_one_skb", "SOCKET_RCVBUFF", Culprit::Kernel),
            ("__udp4_lib_rcv", "NO_SOCKET", Culprit::Kernel),
        ] {
            assert_eq!(drop(place, reason).culprit(), culprit, "{place}");
        }
    }

    #[test]
    fn a_symbol_names_its_function() {
        for (symbol, name) in [
            ("nf_queue+0x1a4/0x2f0", "nf_queue"),
            ("nft_do_chain+0x10/0x20 [nf_tables]", "nft_do_chain"),
            ("udp_rcv.part.0+0x1/0x2", "udp_rcv"),
            ("nf_reinject", "nf_reinject"),
        ] {
            assert_eq!(function_of(symbol), name);
        }
    }

    #[test]
    fn drops_of_a_kind_are_summed() {
        let mut drops = Drops::default();
        drops.add(drop("nf_queue", "NOT_SPECIFIED"));
        drops.add(drop("nf_queue", "NOT_SPECIFIED"));
        drops.add(drop("nf_reinject", "NOT_SPECIFIED"));
        assert_eq!(drops.packets(Culprit::Queue), 2);
        assert_eq!(drops.cells()[0][..2], ["2", "queue"]);
        assert_eq!(drops.objects().len(), 2);
    }

    #[test]
    fn a_flow_is_read_from_a_packet() {
        let mut packet = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        assert_eq!(flow_of(&packet), "udp 192.0.2.1 > 192.0.2.2");
        packet.extend([0, 53, 4, 0]);
        assert_eq!(flow_of(&packet), "udp 192.0.2.1:53 > 192.0.2.2:1024");
        packet[6] = 0x20;
        assert_eq!(flow_of(&packet), "udp 192.0.2.1:53 > 192.0.2.2:1024");
        packet[7] = 1;
        assert_eq!(flow_of(&packet), "udp 192.0.2.1 > 192.0.2.2");
        assert_eq!(flow_of(&packet[..19]), "");
        assert_eq!(flow_of(&[]), "");
        let mut six = vec![0; 44];
        (six[0], six[6], six[23], six[39], six[41]) = (0x60, 6, 1, 2, 80);
        assert_eq!(flow_of(&six), "tcp [::1]:80 > [::2]:0");
    }
}
