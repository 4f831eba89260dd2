// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes of an IP packet to fields. Pure and total: every input gives a status, nothing outside the
//! captured bytes is read. What is malformed has a name, under which it is counted.
//!
//! Formats: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 4302 (AH), RFC 9293 (TCP), RFC 768 (UDP),
//! RFC 792 (ICMP), RFC 4443 (ICMPv6), RFC 2675 (jumbograms, which BIG TCP borrows).

/// Without options.
pub const IPV4_HEADER_BYTES: u32 = 20;
/// Without extension headers.
pub const IPV6_HEADER_BYTES: u32 = 40;
/// Of an extension header that must be there to know its length.
pub const IPV6_EXTENSION_BYTES: u32 = 8;
/// Extension headers walked; a ninth is malformed.
pub const IPV6_EXTENSIONS_MAX: u32 = 8;
/// Without options.
pub const TCP_HEADER_BYTES: u32 = 20;
pub const UDP_HEADER_BYTES: u32 = 8;
pub const ICMP_HEADER_BYTES: u32 = 8;
/// What a 16-bit length field can say.
pub const LENGTH_MAX: u32 = 65535;

/// What parsing came to. All from `Empty` on are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketStatus {
    Ok,
    /// A header lies beyond the captured bytes; not malformed.
    Cut,
    Empty,
    Version,
    Ipv4Short,
    Ipv4HeaderLength,
    Ipv4TotalLength,
    Ipv4FragmentOverflow,
    Ipv6Short,
    Ipv6PayloadLength,
    Ipv6ExtensionShort,
    Ipv6ExtensionLimit,
    Ipv6FragmentOverflow,
    TcpShort,
    TcpDataOffset,
    UdpShort,
    UdpLength,
    IcmpShort,
    Icmpv6Short,
}

pub const STATUS_COUNT: usize = PacketStatus::Icmpv6Short as usize + 1;

/// All of them, in order.
pub const STATUSES: [PacketStatus; STATUS_COUNT] = [
    PacketStatus::Ok,
    PacketStatus::Cut,
    PacketStatus::Empty,
    PacketStatus::Version,
    PacketStatus::Ipv4Short,
    PacketStatus::Ipv4HeaderLength,
    PacketStatus::Ipv4TotalLength,
    PacketStatus::Ipv4FragmentOverflow,
    PacketStatus::Ipv6Short,
    PacketStatus::Ipv6PayloadLength,
    PacketStatus::Ipv6ExtensionShort,
    PacketStatus::Ipv6ExtensionLimit,
    PacketStatus::Ipv6FragmentOverflow,
    PacketStatus::TcpShort,
    PacketStatus::TcpDataOffset,
    PacketStatus::UdpShort,
    PacketStatus::UdpLength,
    PacketStatus::IcmpShort,
    PacketStatus::Icmpv6Short,
];

/// The fields of a packet. Those read before a problem was met stay filled in, the others are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// From the IP header on; what can be read (its length is `captured` in the C twin).
    pub bytes: &'a [u8],
    /// Bytes that the packet has in the kernel, at least `bytes.len()`.
    pub original: u32,
    /// 4, 6; 0 = neither or not seen.
    pub version: u8,
    /// IPv4 protocol, or the last IPv6 next header reached.
    pub protocol: u8,
    /// More fragments follow, or this is not the first.
    pub fragment: bool,
    /// Not the first: carries no layer 4 header.
    pub later_fragment: bool,
    /// Bytes from the IP header to the layer 4 header; 0 = not reached.
    pub l4_offset: u32,
    /// Bytes that the IP header claims; 0 = not known.
    pub end: u32,
    pub has_ports: bool,
    /// Host order.
    pub source_port: u16,
    /// Host order.
    pub destination_port: u16,
    pub has_tcp_flags: bool,
    /// Byte 13 of the TCP header.
    pub tcp_flags: u8,
    /// ICMP in IPv4, ICMPv6 in IPv6.
    pub has_icmp: bool,
    pub icmp_type: u8,
    pub icmp_code: u8,
}

const STATUS_NAMES: [&str; STATUS_COUNT] = [
    "ok",
    "cut",
    "empty",
    "version",
    "ipv4-short",
    "ipv4-header-length",
    "ipv4-total-length",
    "ipv4-fragment-overflow",
    "ipv6-short",
    "ipv6-payload-length",
    "ipv6-extension-short",
    "ipv6-extension-limit",
    "ipv6-fragment-overflow",
    "tcp-short",
    "tcp-data-offset",
    "udp-short",
    "udp-length",
    "icmp-short",
    "icmpv6-short",
];

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ROUTING: u8 = 43;
const PROTOCOL_FRAGMENT: u8 = 44;
const PROTOCOL_AH: u8 = 51;
const PROTOCOL_ICMPV6: u8 = 58;
const PROTOCOL_NO_NEXT: u8 = 59;
const PROTOCOL_DESTINATION: u8 = 60;

/// Parses a packet.
/// bytes: from the IP header on, as many as were captured.
/// original: the packet's length in the kernel, in bytes; less than captured is taken as captured.
/// Always fills in packet. Cannot fail: the status says what was found.
pub fn parse<'a>(bytes: &'a [u8], original: u32, packet: &mut Packet<'a>) -> PacketStatus {
    let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    *packet = Packet {
        bytes,
        original: original.max(captured),
        ..Packet::default()
    };
    let Some(first) = bytes.first() else {
        return if original == 0 {
            PacketStatus::Empty
        } else {
            PacketStatus::Cut
        };
    };
    match first >> 4 {
        4 => parse_ipv4(packet),
        6 => parse_ipv6(packet),
        _ => PacketStatus::Version,
    }
}

/// The `N` bytes at `offset`, or nothing if they were not all copied.
fn header<'a, const N: usize>(packet: &Packet<'a>, offset: u32) -> Option<&'a [u8; N]> {
    packet.bytes.get(offset as usize..)?.first_chunk()
}

fn parse_ipv4(packet: &mut Packet) -> PacketStatus {
    packet.version = 4;
    if packet.original < IPV4_HEADER_BYTES {
        return PacketStatus::Ipv4Short;
    }
    let Some(ip) = header::<{ IPV4_HEADER_BYTES as usize }>(packet, 0) else {
        return PacketStatus::Cut;
    };
    let header_length = u32::from(ip[0] & 0x0f) * 4;
    if header_length < IPV4_HEADER_BYTES || header_length > packet.original {
        return PacketStatus::Ipv4HeaderLength;
    }
    let total_length = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
    if total_length == 0 && packet.original > LENGTH_MAX {
        packet.end = packet.original;
    } else if total_length < header_length || total_length > packet.original {
        return PacketStatus::Ipv4TotalLength;
    } else {
        packet.end = total_length;
    }
    packet.protocol = ip[9];
    let fragment = u16::from_be_bytes([ip[6], ip[7]]);
    let more = fragment & 0x2000 != 0;
    let offset = u32::from(fragment & 0x1fff) * 8;
    if offset > 0 && packet.end - header_length > LENGTH_MAX - offset {
        return PacketStatus::Ipv4FragmentOverflow;
    }
    packet.fragment = more || offset > 0;
    packet.later_fragment = offset > 0;
    if packet.later_fragment {
        return PacketStatus::Ok;
    }
    if (packet.bytes.len() as u64) < u64::from(header_length) {
        return PacketStatus::Cut;
    }
    parse_l4(packet, header_length)
}

fn parse_ipv6(packet: &mut Packet) -> PacketStatus {
    packet.version = 6;
    if packet.original < IPV6_HEADER_BYTES {
        return PacketStatus::Ipv6Short;
    }
    let Some(ip) = header::<{ IPV6_HEADER_BYTES as usize }>(packet, 0) else {
        return PacketStatus::Cut;
    };
    let payload_length = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
    if payload_length == 0 && packet.original > IPV6_HEADER_BYTES + LENGTH_MAX {
        packet.end = packet.original;
    } else if IPV6_HEADER_BYTES + payload_length > packet.original {
        return PacketStatus::Ipv6PayloadLength;
    } else {
        packet.end = IPV6_HEADER_BYTES + payload_length;
    }
    parse_extensions(packet, ip[6])
}

/// Walks the extension headers, of which the first has the type `next`.
fn parse_extensions(packet: &mut Packet, next: u8) -> PacketStatus {
    let mut offset = IPV6_HEADER_BYTES;
    let mut count = 0;
    packet.protocol = next;
    loop {
        match packet.protocol {
            PROTOCOL_HOP_BY_HOP | PROTOCOL_ROUTING | PROTOCOL_FRAGMENT | PROTOCOL_AH
            | PROTOCOL_DESTINATION => {}
            PROTOCOL_NO_NEXT => return PacketStatus::Ok,
            _ => return parse_l4(packet, offset),
        }
        count += 1;
        if count > IPV6_EXTENSIONS_MAX {
            return PacketStatus::Ipv6ExtensionLimit;
        }
        if packet.end - offset < IPV6_EXTENSION_BYTES {
            return PacketStatus::Ipv6ExtensionShort;
        }
        let Some(extension) = header::<{ IPV6_EXTENSION_BYTES as usize }>(packet, offset) else {
            return PacketStatus::Cut;
        };
        let length = extension_length(packet.protocol, extension);
        if length > packet.end - offset {
            return PacketStatus::Ipv6ExtensionShort;
        }
        offset += length;
        if packet.protocol == PROTOCOL_FRAGMENT {
            let fragment = u16::from_be_bytes([extension[2], extension[3]]);
            let fragment_offset = u32::from(fragment & 0xfff8);
            packet.fragment |= fragment_offset > 0 || fragment & 1 != 0;
            if fragment_offset > 0 && packet.end - offset > LENGTH_MAX - fragment_offset {
                return PacketStatus::Ipv6FragmentOverflow;
            }
            packet.later_fragment = fragment_offset > 0;
        }
        packet.protocol = extension[0];
        if packet.later_fragment {
            return PacketStatus::Ok;
        }
    }
}

/// The bytes of an extension header (RFC 8200 section 4, RFC 4302 section 2.2 for AH).
fn extension_length(kind: u8, extension: &[u8; IPV6_EXTENSION_BYTES as usize]) -> u32 {
    match kind {
        PROTOCOL_FRAGMENT => IPV6_EXTENSION_BYTES,
        PROTOCOL_AH => (u32::from(extension[1]) + 2) * 4,
        _ => (u32::from(extension[1]) + 1) * 8,
    }
}

fn parse_l4(packet: &mut Packet, offset: u32) -> PacketStatus {
    packet.l4_offset = offset;
    match (packet.protocol, packet.version) {
        (PROTOCOL_TCP, _) => parse_tcp(packet),
        (PROTOCOL_UDP, _) => parse_udp(packet),
        (PROTOCOL_ICMP, 4) => parse_icmp(packet, PacketStatus::IcmpShort),
        (PROTOCOL_ICMPV6, 6) => parse_icmp(packet, PacketStatus::Icmpv6Short),
        _ => PacketStatus::Ok,
    }
}

fn parse_tcp(packet: &mut Packet) -> PacketStatus {
    parse_ports(packet);
    let available = packet.end - packet.l4_offset;
    if available < TCP_HEADER_BYTES {
        return PacketStatus::TcpShort;
    }
    let Some(tcp) = header::<{ TCP_HEADER_BYTES as usize }>(packet, packet.l4_offset) else {
        return PacketStatus::Cut;
    };
    packet.has_tcp_flags = true;
    packet.tcp_flags = tcp[13];
    let data_offset = u32::from(tcp[12] >> 4) * 4;
    if data_offset < TCP_HEADER_BYTES || data_offset > available {
        return PacketStatus::TcpDataOffset;
    }
    PacketStatus::Ok
}

fn parse_udp(packet: &mut Packet) -> PacketStatus {
    parse_ports(packet);
    let available = packet.end - packet.l4_offset;
    if available < UDP_HEADER_BYTES {
        return PacketStatus::UdpShort;
    }
    let Some(udp) = header::<{ UDP_HEADER_BYTES as usize }>(packet, packet.l4_offset) else {
        return PacketStatus::Cut;
    };
    let length = u32::from(u16::from_be_bytes([udp[4], udp[5]]));
    if length == 0 && available > LENGTH_MAX {
        return PacketStatus::Ok;
    }
    // The length of a fragmented datagram is that of the whole, the bytes here are its first part.
    if length < UDP_HEADER_BYTES || (length > available && !packet.fragment) {
        return PacketStatus::UdpLength;
    }
    PacketStatus::Ok
}

/// TCP and UDP begin with the same two ports.
fn parse_ports(packet: &mut Packet) {
    if packet.end - packet.l4_offset < 4 {
        return;
    }
    if let Some(ports) = header::<4>(packet, packet.l4_offset) {
        packet.has_ports = true;
        packet.source_port = u16::from_be_bytes([ports[0], ports[1]]);
        packet.destination_port = u16::from_be_bytes([ports[2], ports[3]]);
    }
}

fn parse_icmp(packet: &mut Packet, short: PacketStatus) -> PacketStatus {
    let available = packet.end - packet.l4_offset;
    if available >= 2 {
        if let Some(icmp) = header::<2>(packet, packet.l4_offset) {
            packet.has_icmp = true;
            packet.icmp_type = icmp[0];
            packet.icmp_code = icmp[1];
        }
    }
    if available < ICMP_HEADER_BYTES {
        return short;
    }
    if header::<{ ICMP_HEADER_BYTES as usize }>(packet, packet.l4_offset).is_none() {
        return PacketStatus::Cut;
    }
    PacketStatus::Ok
}

/// Whether a status stands for a malformed packet.
pub fn is_malformed(status: PacketStatus) -> bool {
    status >= PacketStatus::Empty
}

/// The status' name in reports, e.g. "tcp-data-offset".
pub fn status_name(status: PacketStatus) -> &'static str {
    STATUS_NAMES[status as usize]
}
