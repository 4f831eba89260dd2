// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers of a packet in an event, in the format of Suricata's EVE (docs/EVENTS.md).

use std::borrow::Cow;

use crate::packet::{self, Packet};
use crate::policy::print;
use crate::policy::Type;
use crate::spec::event::{EventHeaders, EventLine};

/// Number of bits of a flow ID, so that a double represents it exactly.
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

/// Adds bytes to a hash (FNV-1a).
fn hash(so_far: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(so_far, |so_far, &byte| {
        (so_far ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

fn hash_end(so_far: u64, (address, port): (&[u8], u16)) -> u64 {
    hash(hash(so_far, address), &port.to_be_bytes())
}

/// Returns the flow ID: a number of 51 bits, as in Suricata, that is the same for both directions of a connection. None
/// if the packet's addresses are unknown.
pub fn flow_id(packet: &Packet) -> Option<u64> {
    let (source, destination) = packet::addresses(packet)?;
    let source = (source, packet.source_port);
    let destination = (destination, packet.destination_port);
    // The lower end comes first, so that both directions have the same ID.
    let (low, high) = if source <= destination {
        (source, destination)
    } else {
        (destination, source)
    };
    let flow = hash_end(hash_end(hash(FNV_OFFSET, &[packet.protocol]), low), high);
    Some((flow ^ flow >> FLOW_ID_BITS) & ((1 << FLOW_ID_BITS) - 1))
}

/// Returns Suricata's name of a protocol.
fn protocol_name(protocol: u8) -> Cow<'static, str> {
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
        _ => return format!("{protocol:03}").into(),
    };
    name.into()
}

fn address(packet: &Packet, bytes: &[u8]) -> String {
    let fold = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    let kind = match packet.version {
        4 => Type::Ipv4Addr,
        _ => Type::Ipv6Addr,
    };
    print::value(kind, bytes.iter().fold(0, fold))
}

/// Adds a packet's addresses, ports, protocol, and ICMP type and code to an event's line, if the addresses are known.
pub fn fill_tuple(line: &mut EventLine, packet: &Packet) {
    let Some((source, destination)) = packet::addresses(packet) else {
        return;
    };
    line.src_ip = Some(address(packet, source).into());
    line.dest_ip = Some(address(packet, destination).into());
    if packet.has_ports {
        line.src_port = Some(packet.source_port.into());
        line.dest_port = Some(packet.destination_port.into());
    }
    if packet.end > 0 {
        line.proto = Some(protocol_name(packet.protocol));
    }
    if packet.has_icmp {
        line.icmp_type = Some(packet.icmp_type.into());
        line.icmp_code = Some(packet.icmp_code.into());
    }
}

fn fill_ip(headers: &mut EventHeaders, packet: &Packet) {
    let ip = packet.bytes;
    if packet::addresses(packet).is_none() {
        return;
    }
    if packet.version == 4 {
        headers.tos = Some(byte(ip, 1).into());
        headers.ttl = Some(byte(ip, 8).into());
        headers.ipid = Some(be16(ip, 4).into());
    } else {
        headers.tc = Some((be16(ip, 0) >> 4 & 0xff).into());
        headers.hoplimit = Some(byte(ip, 7).into());
        headers.flowlbl = Some((be32(ip, 0) & 0xfffff).into());
    }
}

fn fill_tcp(headers: &mut EventHeaders, tcp: &[u8]) {
    let flags = byte(tcp, 13);
    headers.tcpseq = Some(be32(tcp, 4).into());
    headers.tcpack = Some(be32(tcp, 8).into());
    headers.tcpwin = Some(be16(tcp, 14).into());
    headers.syn = Some(flags & TCP_FLAG_SYN != 0);
    headers.ack = Some(flags & TCP_FLAG_ACK != 0);
    headers.psh = Some(flags & TCP_FLAG_PSH != 0);
    headers.rst = Some(flags & TCP_FLAG_RST != 0);
    headers.urg = Some(flags & TCP_FLAG_URG != 0);
    headers.fin = Some(flags & TCP_FLAG_FIN != 0);
    headers.tcpres = Some((byte(tcp, 12) & 0x0f).into());
    headers.tcpurgp = Some(be16(tcp, 18).into());
}

fn is_echo(packet: &Packet) -> bool {
    let echoes = if packet.version == 4 {
        ICMP_ECHOES
    } else {
        ICMPV6_ECHOES
    };
    packet.has_icmp && echoes.contains(&packet.icmp_type)
}

fn fill_layer4(headers: &mut EventHeaders, packet: &Packet) {
    let offset = packet.l4_offset as usize;
    let Some(l4) = packet.bytes.get(offset..).filter(|_| offset > 0) else {
        return;
    };
    if packet.protocol == TCP && l4.len() >= packet::TCP_HEADER_BYTES as usize {
        fill_tcp(headers, l4);
    } else if packet.protocol == UDP && l4.len() >= packet::UDP_HEADER_BYTES as usize {
        headers.udplen = Some(be16(l4, 4).into());
    } else if is_echo(packet) && l4.len() >= packet::ICMP_HEADER_BYTES as usize {
        headers.icmp_id = Some(be16(l4, 4).into());
        headers.icmp_seq = Some(be16(l4, 6).into());
    }
}

/// Adds the packet's length and the fields of its headers, as in Suricata's drop records.
pub fn fill_layers(headers: &mut EventHeaders, packet: &Packet) {
    headers.len = packet.original.into();
    fill_ip(headers, packet);
    fill_layer4(headers, packet);
}
