// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/statuses.toml.
//! Results of decoding a packet's headers.

/// Result of parsing a packet's headers: all were read, a header lies beyond the copied bytes, or the packet is
/// malformed (all from `Empty` on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketStatus {
    /// Every header was read.
    Ok,
    /// A header, of whatever protocol, lies beyond the copied bytes.
    BeyondCopy,
    /// The packet has no bytes.
    Empty,
    /// The first four bits are neither 4 nor 6.
    Version,
    /// Fewer than the 20 bytes of an IPv4 header.
    Ipv4Short,
    /// The IPv4 header claims fewer than 20 bytes, or more than the packet has.
    Ipv4HeaderLength,
    /// The total length is less than the IPv4 header, or more than the packet has.
    Ipv4TotalLength,
    /// An IPv4 fragment that ends beyond 65535 bytes.
    Ipv4FragmentOverflow,
    /// Fewer than the 40 bytes of an IPv6 header.
    Ipv6Short,
    /// The payload length is more than the packet has.
    Ipv6PayloadLength,
    /// An extension header ends beyond the packet.
    Ipv6ExtensionShort,
    /// More than eight extension headers.
    Ipv6ExtensionLimit,
    /// An IPv6 fragment that ends beyond 65535 bytes.
    Ipv6FragmentOverflow,
    /// Fewer than the 20 bytes of a TCP header.
    TcpShort,
    /// The TCP header claims fewer than 20 bytes, or more than the packet has.
    TcpDataOffset,
    /// Fewer than the 8 bytes of a UDP header.
    UdpShort,
    /// The UDP length is less than 8, or more than the packet has.
    UdpLength,
    /// Fewer than the 8 bytes of an ICMP header.
    IcmpShort,
    /// Fewer than the 8 bytes of an ICMPv6 header.
    Icmpv6Short,
}

pub const STATUS_COUNT: usize = PacketStatus::Icmpv6Short as usize + 1;

/// All statuses in order, with their names in reports.
pub const STATUSES: [(PacketStatus, &str); STATUS_COUNT] = [
    (PacketStatus::Ok, "ok"),
    (PacketStatus::BeyondCopy, "beyond-copy"),
    (PacketStatus::Empty, "empty"),
    (PacketStatus::Version, "version"),
    (PacketStatus::Ipv4Short, "ipv4-short"),
    (PacketStatus::Ipv4HeaderLength, "ipv4-header-length"),
    (PacketStatus::Ipv4TotalLength, "ipv4-total-length"),
    (PacketStatus::Ipv4FragmentOverflow, "ipv4-fragment-overflow"),
    (PacketStatus::Ipv6Short, "ipv6-short"),
    (PacketStatus::Ipv6PayloadLength, "ipv6-payload-length"),
    (PacketStatus::Ipv6ExtensionShort, "ipv6-extension-short"),
    (PacketStatus::Ipv6ExtensionLimit, "ipv6-extension-limit"),
    (PacketStatus::Ipv6FragmentOverflow, "ipv6-fragment-overflow"),
    (PacketStatus::TcpShort, "tcp-short"),
    (PacketStatus::TcpDataOffset, "tcp-data-offset"),
    (PacketStatus::UdpShort, "udp-short"),
    (PacketStatus::UdpLength, "udp-length"),
    (PacketStatus::IcmpShort, "icmp-short"),
    (PacketStatus::Icmpv6Short, "icmpv6-short"),
];

/// Returns true if a status means a malformed packet.
pub fn is_malformed(status: PacketStatus) -> bool {
    status >= PacketStatus::Empty
}

/// Returns the status' name in reports, e.g. "tcp-data-offset".
pub fn status_name(status: PacketStatus) -> &'static str {
    STATUSES[status as usize].1
}
