// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets of an expectation, as bytes and with the names of their connection.

use std::net::IpAddr;

use rust_firewall::names::{Names, NamesProtocol, NamesState, HOST_BYTES};
use rust_firewall::policy::symbol::{self, CT_STATES};

use crate::line::{Expected, Protocol, Shown};

const SYN: u8 = 0x02;
const PUSH_ACK: u8 = 0x18;
/// Type A of a DNS query.
const DNS_TYPE_A: u16 = 1;
const TTL: u8 = 64;

/// Packet of an expectation, with the state and names of its connection.
pub struct Packet {
    pub bytes: Vec<u8>,
    /// Connection's state when the packet arrives, as a value of `Type::CtState`.
    pub state: u32,
    pub names: Names,
}

fn transport(expected: &Expected, is_first: bool) -> (u8, Vec<u8>) {
    let ports = [expected.source.port, expected.destination.port];
    let ports: Vec<u8> = ports
        .iter()
        .flat_map(|port| port.unwrap_or_default().to_be_bytes())
        .collect();
    match expected.protocol {
        Protocol::Tcp => {
            let flags = if is_first { SYN } else { PUSH_ACK };
            let rest = [0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
            (6, [&ports[..], &rest].concat())
        }
        Protocol::Udp => (17, [&ports[..], &[0, 8, 0, 0]].concat()),
        Protocol::Icmp => (1, vec![expected.kind, 0, 0, 0, 0, 0, 0, 0]),
        Protocol::Icmpv6 => (58, vec![expected.kind, 0, 0, 0, 0, 0, 0, 0]),
    }
}

fn bytes(expected: &Expected, is_first: bool) -> Vec<u8> {
    let (protocol, rest) = transport(expected, is_first);
    let length = rest.len() as u16;
    let head = match (expected.source.address, expected.destination.address) {
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => {
            let [high, low] = length.to_be_bytes();
            let head = [0x60, 0, 0, 0, high, low, protocol, TTL];
            [&head[..], &source.octets(), &destination.octets()].concat()
        }
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => {
            let [high, low] = (length + 20).to_be_bytes();
            let head = [0x45, 0, high, low, 0, 0, 0, 0, TTL, protocol, 0, 0];
            [&head[..], &source.octets(), &destination.octets()].concat()
        }
        _ => Vec::new(), // `line::read` returns ends of one family
    };
    [head, rest].concat()
}

/// Returns the names of a connection whose client shows no further name.
/// - shown: name that the client has shown; None: it has shown no name.
pub fn known(shown: Option<&Shown>) -> Names {
    let mut names = Names {
        state: NamesState::Known,
        ..Names::default()
    };
    let Some(shown) = shown else {
        return names;
    };
    names.protocol = shown.protocol;
    let length = shown.host.len().min(HOST_BYTES);
    names.host[..length].copy_from_slice(&shown.host[..length]);
    names.host_length = length as u8;
    names.dns_type = match shown.protocol {
        NamesProtocol::Dns => DNS_TYPE_A,
        _ => 0,
    };
    names
}

fn in_state(state: NamesState) -> Names {
    Names {
        state,
        ..Names::default()
    }
}

/// Returns the value of `Type::CtState` for a state's name.
fn state(name: &str) -> u32 {
    symbol::find(CT_STATES, name).unwrap_or_default()
}

/// Returns the connection's names when the packet arrives.
/// - at: connection's state at that time, as a value of `Type::CtState`.
fn names(expected: &Expected, at: u32) -> Names {
    let is_new = at == state("new");
    let has_connection = is_new || at == state("established") || at == state("related");
    match expected.protocol {
        Protocol::Icmp | Protocol::Icmpv6 => in_state(NamesState::None),
        _ if !has_connection => in_state(NamesState::Unreadable),
        Protocol::Tcp if is_new => in_state(NamesState::Undecided),
        _ => known(expected.shown.as_ref()),
    }
}

/// Returns the packets of an expectation in order. With a state: one packet in that state. Without a state: the
/// connection's first packet, and then, for a name over TCP, the packet that shows the name.
pub fn packets(expected: &Expected) -> Vec<Packet> {
    let is_tcp = expected.protocol == Protocol::Tcp;
    let states = match expected.state {
        Some(given) => vec![given],
        None if is_tcp && expected.shown.is_some() => vec![state("new"), state("established")],
        None => vec![state("new")],
    };
    let packet = |at: u32| Packet {
        bytes: bytes(expected, at == state("new")),
        state: at,
        names: names(expected, at),
    };
    states.into_iter().map(packet).collect()
}
