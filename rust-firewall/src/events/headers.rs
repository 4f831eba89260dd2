// SPDX-License-Identifier: GPL-2.0-or-later
//! What events say of a packet's headers, in the shape of Suricata's EVE: docs/EVENTS.md.

use serde::Serialize;

use crate::packet::{self, Packet};
use crate::policy::print;
use crate::policy::Type;

/// Few enough that a double holds the number exactly.
const FLOW_ID_BITS: u32 = 51;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP_FLAG_FIN: u8 = 0x01;
const TCP_FLAG_SYN: u8 = 0x02;
const TCP_FLAG_RST: u8 = 0x04;
const TCP_FLAG_PSH: u8 = 0x08;
const TCP_FLAG_ACK: u8 = 0x10;
const TCP_FLAG_URG: u8 = 0x20;
const ICMP_ECHOES: [u8; 2] = [8, 0];
const ICMPV6_ECHOES: [u8; 2] = [128, 129];

fn be16(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes).into())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    be16(bytes, at) << 16 | be16(bytes, at + 2)
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Goes on with a hash (FNV-1a).
fn hash(so_far: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(so_far, |so_far, &byte| {
        (so_far ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

fn hash_end(so_far: u64, (address, port): (&[u8], u16)) -> u64 {
    hash(hash(so_far, address), &port.to_be_bytes())
}

/// What tells a flow from others: the same in both directions. 51 bits, as Suricata's. Nothing if
/// the packet's addresses are not known.
pub fn flow_id(packet: &Packet) -> Option<u64> {
    let (source, destination) = packet::addresses(packet)?;
    let source = (source, packet.source_port);
    let destination = (destination, packet.destination_port);
    // The lower end first, so that both directions are one flow.
    let (low, high) = if source <= destination {
        (source, destination)
    } else {
        (destination, source)
    };
    let flow = hash_end(hash_end(hash(FNV_OFFSET, &[packet.protocol]), low), high);
    Some((flow ^ flow >> FLOW_ID_BITS) & ((1 << FLOW_ID_BITS) - 1))
}

/// Protocols as Suricata names them.
fn protocol_name(protocol: u8) -> String {
    let name = match libc::c_int::from(protocol) {
        libc::IPPROTO_ICMP => "ICMP",
        libc::IPPROTO_IGMP => "IGMP",
        libc::IPPROTO_TCP => "TCP",
        libc::IPPROTO_UDP => "UDP",
        libc::IPPROTO_GRE => "GRE",
        libc::IPPROTO_ESP => "ESP",
        libc::IPPROTO_AH => "AH",
        libc::IPPROTO_ICMPV6 => "IPv6-ICMP",
        libc::IPPROTO_SCTP => "SCTP",
        _ => return format!("{protocol:03}"),
    };
    name.to_owned()
}

fn address(packet: &Packet, bytes: &[u8]) -> String {
    let fold = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    let kind = match packet.version {
        4 => Type::Ipv4Addr,
        _ => Type::Ipv6Addr,
    };
    print::value(kind, bytes.iter().fold(0, fold))
}

/// The addresses and what follows from them.
#[derive(Default, Serialize)]
pub struct Tuple {
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proto: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_code: Option<u8>,
}

/// The addresses and what follows from them; nothing if they are not known.
pub fn tuple(packet: &Packet) -> Tuple {
    let Some((source, destination)) = packet::addresses(packet) else {
        return Tuple::default();
    };
    Tuple {
        src_ip: Some(address(packet, source)),
        src_port: packet.has_ports.then_some(packet.source_port),
        dest_ip: Some(address(packet, destination)),
        dest_port: packet.has_ports.then_some(packet.destination_port),
        proto: (packet.end > 0).then(|| protocol_name(packet.protocol)),
        icmp_type: packet.has_icmp.then_some(packet.icmp_type),
        icmp_code: packet.has_icmp.then_some(packet.icmp_code),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Ip {
    V4 { tos: u8, ttl: u8, ipid: u32 },
    V6 { tc: u32, hoplimit: u8, flowlbl: u32 },
}

fn ip(packet: &Packet) -> Option<Ip> {
    let ip = packet.bytes;
    packet::addresses(packet)?;
    Some(match packet.version {
        4 => Ip::V4 {
            tos: byte(ip, 1),
            ttl: byte(ip, 8),
            ipid: be16(ip, 4),
        },
        _ => Ip::V6 {
            tc: be16(ip, 0) >> 4 & 0xff,
            hoplimit: byte(ip, 7),
            flowlbl: be32(ip, 0) & 0xfffff,
        },
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Layer4 {
    Tcp {
        tcpseq: u32,
        tcpack: u32,
        tcpwin: u32,
        syn: bool,
        ack: bool,
        psh: bool,
        rst: bool,
        urg: bool,
        fin: bool,
        tcpres: u8,
        tcpurgp: u32,
    },
    Udp {
        udplen: u32,
    },
    Echo {
        icmp_id: u32,
        icmp_seq: u32,
    },
}

fn tcp(tcp: &[u8]) -> Layer4 {
    let flag = |flag| byte(tcp, 13) & flag != 0;
    Layer4::Tcp {
        tcpseq: be32(tcp, 4),
        tcpack: be32(tcp, 8),
        tcpwin: be16(tcp, 14),
        syn: flag(TCP_FLAG_SYN),
        ack: flag(TCP_FLAG_ACK),
        psh: flag(TCP_FLAG_PSH),
        rst: flag(TCP_FLAG_RST),
        urg: flag(TCP_FLAG_URG),
        fin: flag(TCP_FLAG_FIN),
        tcpres: byte(tcp, 12) & 0x0f,
        tcpurgp: be16(tcp, 18),
    }
}

fn is_echo(packet: &Packet) -> bool {
    let echoes = if packet.version == 4 {
        ICMP_ECHOES
    } else {
        ICMPV6_ECHOES
    };
    packet.has_icmp && echoes.contains(&packet.icmp_type)
}

fn layer4(packet: &Packet) -> Option<Layer4> {
    let offset = packet.l4_offset as usize;
    let l4 = packet.bytes.get(offset..).filter(|_| offset > 0)?;
    match packet.protocol {
        TCP if l4.len() >= packet::TCP_HEADER_BYTES as usize => Some(tcp(l4)),
        UDP if l4.len() >= packet::UDP_HEADER_BYTES as usize => Some(Layer4::Udp {
            udplen: be16(l4, 4),
        }),
        _ if is_echo(packet) && l4.len() >= packet::ICMP_HEADER_BYTES as usize => {
            Some(Layer4::Echo {
                icmp_id: be16(l4, 4),
                icmp_seq: be16(l4, 6),
            })
        }
        _ => None,
    }
}

/// The packet's headers, as Suricata's drop records have them.
#[derive(Serialize)]
pub struct Layers {
    len: u32,
    #[serde(flatten)]
    ip: Option<Ip>,
    #[serde(flatten)]
    layer4: Option<Layer4>,
}

/// The length and the headers, as Suricata's drop records have them.
pub fn layers(packet: &Packet) -> Layers {
    Layers {
        len: packet.original,
        ip: ip(packet),
        layer4: layer4(packet),
    }
}
