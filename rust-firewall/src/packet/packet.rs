// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of an IP packet's headers. It has no side effects. Every input has a status, and only captured bytes are
//! read. Each kind of malformed packet has a name, under which it is counted.
//!
//! Formats: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 4302 (AH), RFC 9293 (TCP), RFC 768 (UDP), RFC 792 (ICMP), RFC 4443
//! (ICMPv6), RFC 2675 (jumbograms, which BIG TCP uses, too).

use crate::spec::option::COPY_BYTES_FAST;
pub use crate::spec::status::*;

/// Size of the IPv4 header without options, in bytes.
pub const IPV4_HEADER_BYTES: u32 = 20;
/// Size of the IPv6 header without extension headers, in bytes.
pub const IPV6_HEADER_BYTES: u32 = 40;
/// Minimum size of an extension header, in bytes. These bytes contain its length.
pub const IPV6_EXTENSION_BYTES: u32 = 8;
/// Maximum number of extension headers; a packet with more is malformed.
pub const IPV6_EXTENSIONS_MAX: u32 = 8;
/// Size of the TCP header without options, in bytes.
pub const TCP_HEADER_BYTES: u32 = 20;
pub const TCP_SEQUENCE_OFFSET: usize = 4;
pub const TCP_ACKNOWLEDGED_OFFSET: usize = 8;
/// Offset of the byte whose upper 4 bits are the TCP header's length in words of 4 bytes.
pub const TCP_LENGTH_OFFSET: usize = 12;
pub const TCP_FLAGS_OFFSET: usize = 13;
pub const UDP_HEADER_BYTES: u32 = 8;
pub const UDP_LENGTH_OFFSET: usize = 4;
pub const ICMP_HEADER_BYTES: u32 = 8;
/// Maximum of a 16-bit length field.
pub const LENGTH_MAX: u32 = 65535;
/// Number of captured bytes that suffice to detect a malformed packet, unless its extension headers are longer than the
/// minimum. Needed are 124 for IPv6 with the maximum number of extension headers and TCP, 80 for IPv4 with all options
/// and TCP.
pub const COPY_BYTES: u32 = COPY_BYTES_FAST;

/// Bit of `Packet::extensions` for a hop-by-hop options header.
pub const EXTENSION_HBH: u8 = 1 << 0;
/// Bit of `Packet::extensions` for a routing header.
pub const EXTENSION_RT: u8 = 1 << 1;
/// Bit of `Packet::extensions` for a fragment header.
pub const EXTENSION_FRAG: u8 = 1 << 2;
/// Bit of `Packet::extensions` for a destination options header.
pub const EXTENSION_DST: u8 = 1 << 3;
/// Bit of `Packet::extensions` for a mobility header, at which the parser ends.
pub const EXTENSION_MH: u8 = 1 << 4;

/// Fields of a packet. If parsing ends with an error, the fields parsed so far stay filled in, and the other fields are
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Captured bytes, from the IP header on (their number is `captured` in the C twin).
    pub bytes: &'a [u8],
    /// Length of the packet in the kernel in bytes, at least `bytes.len()`.
    pub original: u32,
    /// Version of IP: 4 or 6; 0 = another version, or not captured.
    pub version: u8,
    /// IPv4 protocol, or the last next header of IPv6 that was parsed.
    pub protocol: u8,
    /// True if the packet is a fragment.
    pub fragment: bool,
    /// True if the packet is a fragment other than the first: it has no layer 4 header.
    pub later_fragment: bool,
    /// Offset of the layer 4 header from the IP header; 0 = not found.
    pub l4_offset: u32,
    /// Length of the packet in bytes, as its IP header states it, or `original` if the length does not fit into the
    /// header; 0 = unknown.
    pub end: u32,
    /// Bits of the IPv6 extension headers that were found (EXTENSION_*); AH has no bit.
    pub extensions: u8,
    /// True if the IP header (without options) or an extension header is beyond the captured bytes: it is unknown which
    /// extension headers and which protocol follow. If false, headers that were not found are not in the packet, unless
    /// it is malformed.
    pub headers_beyond: bool,
    /// True if nf_tables finds a transport header. transport_protocol and transport_offset can differ from protocol and
    /// l4_offset: for example, AH counts as the transport header (nft_set_pktinfo_ipv6). A later fragment has a
    /// transport protocol, too; in IPv6 only if it is no extension header (ipv6_find_hdr).
    pub has_transport: bool,
    /// Protocol that nf_tables finds, if has_transport.
    pub transport_protocol: u8,
    /// Offset of the transport header that nf_tables finds, from the IP header, if has_transport; 0 = later fragment.
    pub transport_offset: u32,
    pub has_ports: bool,
    /// Source port in host order, if has_ports.
    pub source_port: u16,
    /// Destination port in host order, if has_ports.
    pub destination_port: u16,
    pub has_tcp_flags: bool,
    /// Flags of TCP (byte 13 of its header), if has_tcp_flags.
    pub tcp_flags: u8,
    /// True if type and code of ICMP (in IPv4) or ICMPv6 (in IPv6) were read.
    pub has_icmp: bool,
    pub icmp_type: u8,
    pub icmp_code: u8,
}

/// Offset of the byte whose lower 4 bits are the IPv4 header's length in words of 4 bytes.
const IPV4_HEADER_LENGTH_OFFSET: usize = 0;
/// Mask of the header's length at IPV4_HEADER_LENGTH_OFFSET.
const IPV4_HEADER_LENGTH_MASK: u8 = 0x0f;
const IPV4_TOTAL_LENGTH_OFFSET: usize = 2;
/// Offset of the 16 bits of flags and fragment offset.
const IPV4_FRAGMENT_OFFSET: usize = 6;
const IPV4_PROTOCOL_OFFSET: usize = 9;
/// Offset of the source address; the destination address follows it.
const IPV4_ADDRESSES_OFFSET: usize = 12;
const IPV4_ADDRESS_BYTES: usize = 4;
const IPV6_PAYLOAD_LENGTH_OFFSET: usize = 4;
const IPV6_NEXT_HEADER_OFFSET: usize = 6;
/// Offset of the source address; the destination address follows it.
const IPV6_ADDRESSES_OFFSET: usize = 8;
const IPV6_ADDRESS_BYTES: usize = 16;
// Offsets in an extension header.
const EXTENSION_NEXT_HEADER_OFFSET: usize = 0;
const EXTENSION_LENGTH_OFFSET: usize = 1;
/// Offset of the 16 bits of fragment offset and flags in the IPv6 fragment header.
const EXTENSION_FRAGMENT_OFFSET: usize = 2;
const SOURCE_PORT_OFFSET: usize = 0;
const DESTINATION_PORT_OFFSET: usize = 2;
const ICMP_TYPE_OFFSET: usize = 0;
const ICMP_CODE_OFFSET: usize = 1;
/// Flag MF in the 16 bits of flags and fragment offset of the IPv4 header.
const IPV4_MORE_FRAGMENTS: u16 = 0x2000;
/// Mask of the fragment offset without the flags, in units of 8 bytes.
const IPV4_OFFSET_MASK: u16 = 0x1fff;
/// Flag M in the 16 bits of fragment offset and flags of the fragment header.
const IPV6_MORE_FRAGMENTS: u16 = 0x0001;
/// Mask of the fragment offset without the flags, in bytes.
const IPV6_OFFSET_MASK: u16 = 0xfff8;
/// Size of the ports at the start of TCP and UDP headers.
const PORTS_BYTES: u32 = 4;
/// Size of type and code at the start of ICMP headers.
const ICMP_TYPE_CODE_BYTES: u32 = 2;

const HOPOPTS: u8 = libc::IPPROTO_HOPOPTS as u8;
const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const ROUTING: u8 = libc::IPPROTO_ROUTING as u8;
const FRAGMENT: u8 = libc::IPPROTO_FRAGMENT as u8;
const AH: u8 = libc::IPPROTO_AH as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const NONE: u8 = libc::IPPROTO_NONE as u8;
const DSTOPTS: u8 = libc::IPPROTO_DSTOPTS as u8;
const MH: u8 = libc::IPPROTO_MH as u8;

fn be16(buffer: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([buffer[at], buffer[at + 1]])
}

/// Returns true if `bytes` bytes at an offset lie before the packet's end, as its IP header states it.
fn fits(packet: &Packet, offset: u32, bytes: u32) -> bool {
    offset <= packet.end && bytes <= packet.end - offset
}

/// Returns the header of BYTES bytes at an offset; None unless all of these bytes were captured.
fn header_at<'a, const BYTES: usize>(packet: &Packet<'a>, offset: u32) -> Option<&'a [u8; BYTES]> {
    packet.bytes.get(offset as usize..)?.first_chunk()
}

/// Parses the ports if the packet has their bytes and these were captured, even if the rest of the header is missing.
fn parse_ports(packet: &mut Packet) {
    let ports = header_at::<{ PORTS_BYTES as usize }>(packet, packet.l4_offset);
    let Some(ports) = ports.filter(|_| fits(packet, packet.l4_offset, PORTS_BYTES)) else {
        return;
    };
    packet.has_ports = true;
    packet.source_port = be16(ports, SOURCE_PORT_OFFSET);
    packet.destination_port = be16(ports, DESTINATION_PORT_OFFSET);
}

fn parse_tcp(packet: &mut Packet) -> PacketStatus {
    let available = packet.end - packet.l4_offset;
    let tcp = header_at::<{ TCP_HEADER_BYTES as usize }>(packet, packet.l4_offset);
    parse_ports(packet);
    if available < TCP_HEADER_BYTES {
        return PacketStatus::TcpShort;
    }
    let Some(tcp) = tcp else {
        return PacketStatus::BeyondCopy;
    };
    packet.has_tcp_flags = true;
    packet.tcp_flags = tcp[TCP_FLAGS_OFFSET];
    let header_bytes = u32::from(tcp[TCP_LENGTH_OFFSET] >> 4) * 4;
    if header_bytes < TCP_HEADER_BYTES || header_bytes > available {
        return PacketStatus::TcpDataOffset;
    }
    PacketStatus::Ok
}

fn parse_udp(packet: &mut Packet) -> PacketStatus {
    let available = packet.end - packet.l4_offset;
    let udp = header_at::<{ UDP_HEADER_BYTES as usize }>(packet, packet.l4_offset);
    parse_ports(packet);
    if available < UDP_HEADER_BYTES {
        return PacketStatus::UdpShort;
    }
    let Some(udp) = udp else {
        return PacketStatus::BeyondCopy;
    };
    let length = u32::from(be16(udp, UDP_LENGTH_OFFSET));
    if length == 0 && available > LENGTH_MAX {
        return PacketStatus::Ok; // a GSO packet or a jumbogram, whose length does not fit into the field
    }
    if length < UDP_HEADER_BYTES {
        return PacketStatus::UdpLength;
    }
    if length > available && !packet.fragment {
        return PacketStatus::UdpLength;
    }
    PacketStatus::Ok
}

/// Parses ICMP or ICMPv6, whose headers begin with the same fields.
/// - short_status: status if the packet ends within its ICMP header.
fn parse_icmp(packet: &mut Packet, short_status: PacketStatus) -> PacketStatus {
    let available = packet.end - packet.l4_offset;
    let icmp = header_at::<{ ICMP_TYPE_CODE_BYTES as usize }>(packet, packet.l4_offset);
    if let Some(icmp) = icmp.filter(|_| available >= ICMP_TYPE_CODE_BYTES) {
        packet.has_icmp = true;
        packet.icmp_type = icmp[ICMP_TYPE_OFFSET];
        packet.icmp_code = icmp[ICMP_CODE_OFFSET];
    }
    if available < ICMP_HEADER_BYTES {
        return short_status;
    }
    if header_at::<{ ICMP_HEADER_BYTES as usize }>(packet, packet.l4_offset).is_none() {
        return PacketStatus::BeyondCopy;
    }
    PacketStatus::Ok
}

/// Sets the transport header that nf_tables sees, if it is not set yet: an earlier AH stays.
fn set_transport(packet: &mut Packet, protocol: u8, offset: u32) {
    if packet.has_transport {
        return;
    }
    packet.has_transport = true;
    packet.transport_protocol = protocol;
    packet.transport_offset = offset;
}

/// Returns the status of a packet with a protocol that is not parsed: Ok if the first four bytes of its layer 4 (all,
/// if there are fewer) were captured, otherwise BeyondCopy. Policies read these bytes: in SCTP, for example, they are
/// the ports.
fn parse_other(packet: &Packet) -> PacketStatus {
    let available = packet.end - packet.l4_offset;
    let bytes = available.min(PORTS_BYTES) as usize;
    let from = packet.bytes.get(packet.l4_offset as usize..);
    match from.and_then(|from| from.get(..bytes)) {
        Some(_) => PacketStatus::Ok,
        None => PacketStatus::BeyondCopy,
    }
}

/// Parses the layer 4 header of packet.protocol and returns its status.
/// - offset: at most packet.end.
fn parse_l4(packet: &mut Packet, offset: u32) -> PacketStatus {
    packet.l4_offset = offset;
    match (packet.protocol, packet.version) {
        (TCP, _) => parse_tcp(packet),
        (UDP, _) => parse_udp(packet),
        (ICMP, 4) => parse_icmp(packet, PacketStatus::IcmpShort),
        (ICMPV6, 6) => parse_icmp(packet, PacketStatus::Icmpv6Short),
        _ => parse_other(packet),
    }
}

/// Records that the captured bytes do not contain the whole IP header. Returns BeyondCopy.
fn cut_headers(packet: &mut Packet) -> PacketStatus {
    packet.headers_beyond = true;
    PacketStatus::BeyondCopy
}

fn parse_ipv4(packet: &mut Packet) -> PacketStatus {
    let ip = header_at::<{ IPV4_HEADER_BYTES as usize }>(packet, 0);
    if packet.original < IPV4_HEADER_BYTES {
        return PacketStatus::Ipv4Short;
    }
    let Some(ip) = ip else {
        return cut_headers(packet);
    };

    let header_bytes = u32::from(ip[IPV4_HEADER_LENGTH_OFFSET] & IPV4_HEADER_LENGTH_MASK) * 4;
    if header_bytes < IPV4_HEADER_BYTES || header_bytes > packet.original {
        return PacketStatus::Ipv4HeaderLength;
    }
    let mut total_bytes = u32::from(be16(ip, IPV4_TOTAL_LENGTH_OFFSET));
    if total_bytes == 0 && packet.original > LENGTH_MAX {
        total_bytes = packet.original; // a GSO packet, whose length does not fit into the field
    }
    if total_bytes < header_bytes || total_bytes > packet.original {
        return PacketStatus::Ipv4TotalLength;
    }
    packet.end = total_bytes;
    packet.protocol = ip[IPV4_PROTOCOL_OFFSET];

    let flags_offset = be16(ip, IPV4_FRAGMENT_OFFSET);
    let fragment_offset = u32::from(flags_offset & IPV4_OFFSET_MASK) * 8;
    let transport_offset = if fragment_offset > 0 { 0 } else { header_bytes };
    set_transport(packet, packet.protocol, transport_offset);
    if fragment_offset > 0 && packet.end - header_bytes > LENGTH_MAX - fragment_offset {
        return PacketStatus::Ipv4FragmentOverflow;
    }
    packet.fragment = fragment_offset > 0 || flags_offset & IPV4_MORE_FRAGMENTS != 0;
    packet.later_fragment = fragment_offset > 0;
    if packet.later_fragment {
        return PacketStatus::Ok;
    }
    if packet.bytes.get(..header_bytes as usize).is_none() {
        return PacketStatus::BeyondCopy;
    }
    parse_l4(packet, header_bytes)
}

/// Returns true if an IPv6 header of this type is an extension header that the parser reads. If `Packet::protocol` is
/// such a type, the parser has ended there: the protocols after it are unknown.
pub fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOPOPTS | ROUTING | FRAGMENT | AH | DSTOPTS)
}

/// Returns the bit of an extension header in `Packet::extensions`; 0 = none.
fn extension_bit(next_header: u8) -> u8 {
    match next_header {
        HOPOPTS => EXTENSION_HBH,
        ROUTING => EXTENSION_RT,
        FRAGMENT => EXTENSION_FRAG,
        DSTOPTS => EXTENSION_DST,
        MH => EXTENSION_MH,
        _ => 0,
    }
}

/// First bytes of an extension header, which contain its length.
type Extension = [u8; IPV6_EXTENSION_BYTES as usize];

/// Returns the length of an extension header in bytes (RFC 8200 section 4, RFC 4302 section 2.2).
/// - length: second byte of the extension header, in units of 8 bytes (AH: 4 bytes).
fn extension_bytes(kind: u8, length: u8) -> u32 {
    match kind {
        FRAGMENT => IPV6_EXTENSION_BYTES,
        AH => (u32::from(length) + 2) * 4,
        _ => (u32::from(length) + 1) * 8,
    }
}

/// Parses the fragment header at an offset. For a later fragment it sets later_fragment and protocol, because such a
/// fragment has no further headers.
fn parse_ipv6_fragment(packet: &mut Packet, offset: u32, extension: &Extension) -> PacketStatus {
    let offset_flags = be16(extension, EXTENSION_FRAGMENT_OFFSET);
    let fragment_offset = u32::from(offset_flags & IPV6_OFFSET_MASK);
    let fragment_bytes = packet.end - offset - IPV6_EXTENSION_BYTES;
    // An atomic fragment (RFC 6946) is a complete packet.
    if fragment_offset > 0 || offset_flags & IPV6_MORE_FRAGMENTS != 0 {
        packet.fragment = true;
    }
    if fragment_offset == 0 {
        return PacketStatus::Ok;
    }
    if fragment_bytes > LENGTH_MAX - fragment_offset {
        return PacketStatus::Ipv6FragmentOverflow;
    }
    packet.later_fragment = true;
    packet.protocol = extension[EXTENSION_NEXT_HEADER_OFFSET];
    PacketStatus::Ok
}

/// Parses the extension headers, until the first other header, "no next header" or a later fragment.
/// - offset: in: offset of the first extension header; out: offset at which the loop ended.
fn walk_extensions(packet: &mut Packet, offset: &mut u32) -> PacketStatus {
    let mut extensions = 0;
    while is_extension(packet.protocol) {
        let extension = header_at(packet, *offset);
        // If the captured bytes end within the chain, its length is unknown. Therefore this check precedes the limit's
        // check.
        if extension.is_none() && fits(packet, *offset, IPV6_EXTENSION_BYTES) {
            return PacketStatus::BeyondCopy;
        }
        if extensions == IPV6_EXTENSIONS_MAX {
            return PacketStatus::Ipv6ExtensionLimit;
        }
        let fits_in = fits(packet, *offset, IPV6_EXTENSION_BYTES);
        let Some(extension) = extension.filter(|_| fits_in) else {
            return PacketStatus::Ipv6ExtensionShort;
        };
        let bytes = extension_bytes(packet.protocol, extension[EXTENSION_LENGTH_OFFSET]);
        if !fits(packet, *offset, bytes) {
            return PacketStatus::Ipv6ExtensionShort;
        }
        if packet.protocol == FRAGMENT {
            let status = parse_ipv6_fragment(packet, *offset, extension);
            if status != PacketStatus::Ok || packet.later_fragment {
                return status;
            }
        }
        packet.protocol = extension[EXTENSION_NEXT_HEADER_OFFSET];
        *offset += bytes;
        extensions += 1;
    }
    PacketStatus::Ok
}

/// Returns the number of bytes that ipv6_find_hdr reads of an extension header.
fn extension_read_bytes(kind: u8) -> u32 {
    match kind {
        ROUTING | FRAGMENT => 4,
        _ => 2,
    }
}

/// Finds the transport header like the kernel's ipv6_find_hdr. Accepts any number of extension headers, and lengths
/// beyond the packet's end. An authentication header (AH) counts as the transport header. Stops at an extension header
/// with missing bytes. Sets headers_beyond if the packet has these bytes but they were not captured.
fn find_transport(packet: &mut Packet, mut next_header: u8) {
    let mut offset = IPV6_HEADER_BYTES;
    while is_extension(next_header) {
        let bytes = extension_read_bytes(next_header);
        let from = packet.bytes.get(offset as usize..).unwrap_or_default();
        if !fits(packet, offset, bytes) {
            return;
        }
        let Some(extension) = from.get(..bytes as usize) else {
            packet.headers_beyond = true;
            return;
        };
        let (following, length) = (
            extension[EXTENSION_NEXT_HEADER_OFFSET],
            extension[EXTENSION_LENGTH_OFFSET],
        );
        packet.extensions |= extension_bit(next_header);
        if next_header == AH {
            set_transport(packet, AH, offset);
        }
        if next_header == FRAGMENT
            && be16(extension, EXTENSION_FRAGMENT_OFFSET) & IPV6_OFFSET_MASK != 0
        {
            if !is_extension(following) {
                set_transport(packet, following, 0);
            }
            return;
        }
        offset += extension_bytes(next_header, length);
        next_header = following;
    }
    packet.extensions |= extension_bit(next_header);
    set_transport(packet, next_header, offset);
}

fn parse_ipv6(packet: &mut Packet) -> PacketStatus {
    let ip = header_at::<{ IPV6_HEADER_BYTES as usize }>(packet, 0);
    let mut offset = IPV6_HEADER_BYTES;
    if packet.original < IPV6_HEADER_BYTES {
        return PacketStatus::Ipv6Short;
    }
    let Some(ip) = ip else {
        return cut_headers(packet);
    };

    let mut payload_bytes = u32::from(be16(ip, IPV6_PAYLOAD_LENGTH_OFFSET));
    if payload_bytes == 0 && packet.original > IPV6_HEADER_BYTES + LENGTH_MAX {
        payload_bytes = packet.original - IPV6_HEADER_BYTES; // a jumbogram or BIG TCP
    }
    if payload_bytes > packet.original - IPV6_HEADER_BYTES {
        return PacketStatus::Ipv6PayloadLength;
    }
    packet.end = IPV6_HEADER_BYTES + payload_bytes;
    packet.protocol = ip[IPV6_NEXT_HEADER_OFFSET];

    find_transport(packet, ip[IPV6_NEXT_HEADER_OFFSET]);
    let status = walk_extensions(packet, &mut offset);
    if status != PacketStatus::Ok || packet.later_fragment || packet.protocol == NONE {
        return status;
    }
    parse_l4(packet, offset)
}

/// Parses a packet.
/// - bytes: captured bytes, from the IP header on.
/// - original: length of the packet in the kernel, in bytes; at least the number of captured bytes is assumed.
/// - packet: out: always filled in.
/// - Returns the status; every input has a status.
pub fn parse<'a>(bytes: &'a [u8], original: u32, packet: &mut Packet<'a>) -> PacketStatus {
    let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    *packet = Packet {
        bytes,
        original: original.max(captured),
        ..Packet::default()
    };
    let Some(first) = bytes.first() else {
        return if packet.original == 0 {
            PacketStatus::Empty
        } else {
            cut_headers(packet)
        };
    };
    match first >> 4 {
        4 => {
            packet.version = 4;
            parse_ipv4(packet)
        }
        6 => {
            packet.version = 6;
            parse_ipv6(packet)
        }
        _ => PacketStatus::Version,
    }
}

/// Returns the two addresses of the IP header in network order, source first. Returns None if they were not captured,
/// or if the IP version is unknown.
pub fn addresses<'a>(packet: &Packet<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let (start, bytes) = match packet.version {
        4 => (IPV4_ADDRESSES_OFFSET, IPV4_ADDRESS_BYTES),
        6 => (IPV6_ADDRESSES_OFFSET, IPV6_ADDRESS_BYTES),
        _ => return None,
    };
    Some(packet.bytes.get(start..start + 2 * bytes)?.split_at(bytes))
}
