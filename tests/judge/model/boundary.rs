// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets around the values of a policy: for each rule, packets that match, that miss by one, and whose field is missing,
//! truncated, in a fragment, or after extension headers or options.

use super::field::{Field, Kind, FIELDS, ICMP, ICMPV6, TCP, UDP};
use super::generate::pool::pool_value;
use super::packet::{
    Extension, Layer4, Packet, AH, DESTINATION, FRAGMENT, HOP_BY_HOP, MOBILITY, NO_NEXT, ROUTING,
};
use super::random::Random;
use super::tree::Group;

/// TCP options: padding of one byte, and Multipath TCP.
const NOP: u8 = 1;
const MPTCP: u8 = 30;
/// Largest packet in bytes, as on an Ethernet link.
const MTU: usize = 1500;

/// Makes `count` packets for rules with these values. The number of each packet is its index.
pub fn packets(random: &mut Random, groups: &[Group], count: usize) -> Vec<Packet> {
    (0..count)
        .map(|number| {
            let mut packet = match groups {
                [] => random_packet(random),
                _ if random.percent(15) => random_packet(random),
                _ => {
                    let group = random.pick(groups).clone();
                    around(random, &group)
                }
            };
            packet.number = number as u32;
            packet
        })
        .collect()
}

/// Makes a packet with the values of one rule. Most packets then get one value just outside its range, or become
/// unusual in another respect.
fn around(random: &mut Random, group: &Group) -> Packet {
    let (version, protocol) = wanted(random, group);
    let mut packet = Packet::new(version, protocol);
    if random.percent(50) {
        packet.payload = vec![0x42; random.below(40)];
    }
    for range in group {
        let value = match random.below(10) {
            0..4 => range.low,
            4..7 => range.high,
            _ => random.between(range.low, range.high),
        };
        set(&mut packet, range.field, value);
    }
    match random.weighted(&[3, 4, 3]) {
        0 => {}
        1 => {
            let range = random.pick(group);
            let value = match random.percent(50) {
                true => range.low.wrapping_sub(1),
                false => range.high.wrapping_add(1),
            };
            set(&mut packet, range.field, value & range.field.max());
        }
        _ => disturb(random, &mut packet),
    }
    packet
}

/// Returns the IP version and protocol that the values require; random ones if they require none.
fn wanted(random: &mut Random, group: &Group) -> (u8, u8) {
    let asked = |of: fn(&super::field::Facts) -> u8| {
        let mut found = group.iter().map(|range| of(range.field.facts()));
        found.find(|value| *value != 0)
    };
    // Rules can read the fields of ICMP in both versions.
    let mut versions = group.iter().filter_map(|range| match range.field {
        Field::MetaNfproto if range.low == 10 => Some(6),
        Field::MetaNfproto => Some(4),
        field if field.facts().is_icmp() && random.percent(30) => None,
        field => Some(field.facts().version).filter(|version| *version != 0),
    });
    let found = versions.next();
    let version = found.unwrap_or(if random.percent(60) { 4 } else { 6 });
    let protocol = asked(|facts| facts.protocol).unwrap_or_else(|| any_protocol(random, version));
    (version, protocol)
}

fn any_protocol(random: &mut Random, version: u8) -> u8 {
    let own = if version == 4 { ICMP } else { ICMPV6 };
    let foreign = if version == 4 { ICMPV6 } else { ICMP };
    let all = [
        TCP, UDP, own, foreign, 132, 47, 253, AH, 0, 255, 136, NO_NEXT,
    ];
    all[random.weighted(&[40, 25, 12, 2, 3, 2, 2, 1, 1, 1, 1, 1])]
}

fn random_packet(random: &mut Random) -> Packet {
    let version = if random.percent(60) { 4 } else { 6 };
    let mut packet = Packet::new(version, 0);
    let protocol = any_protocol(random, version);
    packet.set_protocol(protocol);
    packet.payload = vec![0x42; random.below(60)];
    for _ in 0..random.below(7) {
        let facts = random.pick(&FIELDS);
        if facts.is_in(version) {
            let value = match random.percent(80) {
                true => pool_value(random, facts.field, &["lo"]),
                false => random.next_u128() & facts.field.max(),
            };
            if facts.protocol == 0 || facts.protocol == packet.protocol {
                set(&mut packet, facts.field, value);
            }
        }
    }
    for _ in 0..random.weighted(&[6, 3, 1]) {
        disturb(random, &mut packet);
    }
    packet
}

/// Sets a field of a packet to a value, if the packet has the field. Fields outside the packet are ignored.
fn set(packet: &mut Packet, field: Field, value: u128) {
    let facts = field.facts();
    if !facts.is_in(packet.version) {
        return;
    }
    if facts.protocol != 0 && facts.protocol != packet.protocol {
        return;
    }
    match field {
        Field::IpSaddr | Field::Ip6Saddr => packet.source = value,
        Field::IpDaddr | Field::Ip6Daddr => packet.destination = value,
        Field::IpTtl | Field::Ip6Hoplimit => packet.hops = value as u8,
        Field::IpDscp => packet.traffic_class = (value as u8) << 2,
        Field::IpLength => set_length(packet, value),
        Field::MetaLength => set_length(packet, value),
        Field::IpFragOff => packet.fragment = value as u16,
        Field::IpProtocol | Field::MetaL4proto => set_protocol(packet, value as u8),
        Field::Ip6Nexthdr => match value as u8 {
            kind @ (HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION | MOBILITY) => {
                packet.extensions = vec![Extension::new(kind)];
            }
            protocol => {
                packet.extensions.clear();
                set_protocol(packet, protocol);
            }
        },
        Field::TcpSport | Field::UdpSport | Field::ThSport => {
            set_ports(packet, Some(value as u16), None)
        }
        Field::TcpDport | Field::UdpDport | Field::ThDport => {
            set_ports(packet, None, Some(value as u16))
        }
        Field::TcpFlags => {
            if let Layer4::Tcp { flags, .. } = &mut packet.layer4 {
                *flags = value as u8;
            }
        }
        Field::TcpOptionMptcp => {
            if let Layer4::Tcp { options, .. } = &mut packet.layer4 {
                *options = match value {
                    0 => Vec::new(),
                    _ => vec![NOP, NOP, NOP, NOP, MPTCP, 4, 1, 1],
                };
            }
        }
        Field::IcmpType | Field::Icmpv6Type => {
            if let Layer4::Icmp { kind, .. } = &mut packet.layer4 {
                *kind = value as u8;
            }
        }
        Field::IcmpCode | Field::Icmpv6Code => {
            if let Layer4::Icmp { code, .. } = &mut packet.layer4 {
                *code = value as u8;
            }
        }
        Field::ExthdrHbh => extend(packet, HOP_BY_HOP, value),
        Field::ExthdrRt => extend(packet, ROUTING, value),
        Field::ExthdrFrag => extend(packet, FRAGMENT, value),
        Field::ExthdrDst => extend(packet, DESTINATION, value),
        Field::ExthdrMh => extend(packet, MOBILITY, value),
        Field::MetaNfproto
        | Field::MetaMark
        | Field::MetaIif
        | Field::MetaOif
        | Field::MetaIifname
        | Field::MetaOifname
        | Field::MetaSkuid
        | Field::MetaSkgid
        | Field::CtState
        | Field::CtMark => {}
    }
}

/// Sets the protocol, keeping an existing layer 4 header of that protocol.
fn set_protocol(packet: &mut Packet, protocol: u8) {
    if packet.protocol != protocol {
        packet.set_protocol(protocol);
    }
}

/// Sets a packet's length, by its payload or by truncating layer 4.
fn set_length(packet: &mut Packet, value: u128) {
    packet.cut = None;
    packet.payload.clear();
    let bare = packet.bytes().len();
    let wanted = value.min(MTU as u128) as usize;
    if wanted >= bare {
        packet.payload.resize(wanted - bare, 0x42);
    } else {
        packet.cut = (wanted + layer4_bytes(packet)).checked_sub(bare);
    }
}

fn layer4_bytes(packet: &Packet) -> usize {
    match &packet.layer4 {
        Layer4::Tcp { options, .. } => 20 + options.len(),
        Layer4::Udp { .. } | Layer4::Icmp { .. } => 8,
        Layer4::Other(bytes) => bytes.len(),
    }
}

fn set_ports(packet: &mut Packet, to_source: Option<u16>, to_destination: Option<u16>) {
    match &mut packet.layer4 {
        Layer4::Tcp {
            source,
            destination,
            ..
        }
        | Layer4::Udp {
            source,
            destination,
            ..
        } => {
            *source = to_source.unwrap_or(*source);
            *destination = to_destination.unwrap_or(*destination);
        }
        Layer4::Icmp { kind, code } => {
            // Type and code are the bytes that `th sport` would read.
            if let Some(port) = to_source {
                [*kind, *code] = port.to_be_bytes();
            }
        }
        Layer4::Other(bytes) if bytes.len() >= 4 => {
            if let Some(port) = to_source {
                bytes[..2].copy_from_slice(&port.to_be_bytes());
            }
            if let Some(port) = to_destination {
                bytes[2..4].copy_from_slice(&port.to_be_bytes());
            }
        }
        Layer4::Other(_) => {}
    }
}

fn extend(packet: &mut Packet, kind: u8, exists: u128) {
    packet.extensions.retain(|extension| extension.kind != kind);
    if exists != 0 {
        let at = if kind == HOP_BY_HOP {
            0
        } else {
            packet.extensions.len()
        };
        packet.extensions.insert(at, Extension::new(kind));
    }
}

/// Makes a packet unusual in one respect.
fn disturb(random: &mut Random, packet: &mut Packet) {
    match random.weighted(&[4, 3, 3, 3, 2, 2, 2, 1, 1, 1]) {
        0 => packet.cut = Some(*random.pick(&[0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 14, 15, 16, 19, 20])),
        1 => fragment(random, packet, false),
        2 => fragment(random, packet, true),
        3 => options(random, packet),
        4 => options(random, packet),
        5 => match &mut packet.layer4 {
            Layer4::Tcp { options, .. } => *options = tcp_options(random),
            _ => packet.payload = vec![0x55; random.below(MTU / 2)],
        },
        6 => match &mut packet.layer4 {
            Layer4::Tcp { data_offset, .. } => *data_offset = Some(*random.pick(&[0, 4, 5, 6, 15])),
            Layer4::Udp { length, .. } => *length = Some(*random.pick(&[0, 4, 7, 8, 9, 1000])),
            _ => packet.cut = Some(random.below(9)),
        },
        7 => packet.bad_checksum = true,
        8 => {
            let protocol = any_protocol(random, packet.version);
            packet.set_protocol(protocol);
        }
        _ => packet.traffic_class = random.word() as u8,
    }
}

/// Returns TCP options: padding that contains some other options, some of them with a wrong length.
fn tcp_options(random: &mut Random) -> Vec<u8> {
    let mut options = vec![NOP; *random.pick(&[4, 12, 20, 40])];
    for _ in 0..random.below(4) {
        let option = *random.pick(&[
            &[MPTCP, 4, 1, 1][..],
            &[MPTCP, 12],
            &[MPTCP, 0],
            &[MPTCP],
            &[2, 4, 5, 0xb4],
            &[8, 10],
            &[0],
            &[5, 0],
            &[5, 1],
        ]);
        let at = random.below(options.len());
        let room = option.len().min(options.len() - at);
        options[at..at + room].copy_from_slice(&option[..room]);
    }
    options
}

fn fragment(random: &mut Random, packet: &mut Packet, later: bool) {
    let units = match later {
        false => 0,
        true => *random.pick(&[1, 2, 185, 8000, 8189]),
    };
    let more = u16::from(!later || random.percent(50));
    if packet.version == 4 {
        packet.fragment = more << 13 | units;
        return;
    }
    let at = random.below(packet.extensions.len() + 1);
    let extension = Extension {
        fragment: units << 3 | if random.percent(10) { 0 } else { more },
        ..Extension::new(FRAGMENT)
    };
    packet.extensions.insert(at, extension);
}

fn options(random: &mut Random, packet: &mut Packet) {
    if packet.version == 4 {
        packet.options = *random.pick(&[4, 8, 12, 40]);
        return;
    }
    for _ in 0..1 + random.weighted(&[5, 3, 1, 1, 0, 0, 0, 1, 1]) {
        let kind =
            [HOP_BY_HOP, DESTINATION, ROUTING, AH, MOBILITY][random.weighted(&[4, 4, 3, 2, 1])];
        let units = *random.pick(&[0, 0, 0, 1, 2, 4]);
        packet.extensions.push(Extension {
            units,
            ..Extension::new(kind)
        });
    }
    // Moves the hop-by-hop header to its regular position; elsewhere the kernel and the RFC classify it differently.
    if random.percent(80) {
        packet
            .extensions
            .sort_by_key(|extension| extension.kind != HOP_BY_HOP);
    }
}

/// Returns a packet's bytes with some of them changed, added or removed.
pub fn mangled(random: &mut Random, packet: &Packet) -> Vec<u8> {
    let mut bytes = packet.bytes();
    for _ in 0..1 + random.below(3) {
        match random.below(4) {
            0 => bytes.truncate(random.below(bytes.len() + 1)),
            1 => bytes.resize(bytes.len() + random.below(9), 0xa5),
            _ if bytes.is_empty() => {}
            2 => {
                let at = random.below(bytes.len().min(64));
                bytes[at] ^= 1 << random.below(8);
            }
            _ => {
                let at = random.below(bytes.len().min(64));
                bytes[at] = random.word() as u8;
            }
        }
    }
    bytes
}

/// Returns a value for a field outside of packets (interface, mark, owner or connection state), mostly near the rules'
/// values.
pub fn told(
    random: &mut Random,
    groups: &[Group],
    field: Field,
    interfaces: &[&'static str],
) -> u128 {
    let known: Vec<_> = groups
        .iter()
        .flatten()
        .filter(|range| range.field == field)
        .collect();
    if known.is_empty() || random.percent(25) {
        return pool_value(random, field, interfaces);
    }
    let range = random.pick(&known);
    let value = match random.below(4) {
        0 => range.low,
        1 => range.high,
        2 => random.between(range.low, range.high),
        _ => range.high.wrapping_add(1) & field.max(),
    };
    match field.kind() {
        Kind::Ifname | Kind::IfaceIndex if range.low != range.high => {
            pool_value(random, field, interfaces)
        }
        Kind::Ifname | Kind::IfaceIndex => range.low,
        _ => value,
    }
}
