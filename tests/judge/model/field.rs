// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of the policy language and the format of their values: rules/policy/GRAMMAR.md as a table, written for the
//! judge from that text alone.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Ipv4Addr,
    Ipv6Addr,
    InetProto,
    InetService,
    TcpFlag,
    IcmpType,
    IcmpCode,
    Icmpv6Type,
    Icmpv6Code,
    Dscp,
    Mark,
    Ifname,
    IfaceIndex,
    Uid,
    Gid,
    CtState,
    NfProto,
    Integer,
    Boolean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    IpSaddr,
    IpDaddr,
    IpProtocol,
    IpTtl,
    IpDscp,
    IpLength,
    IpFragOff,
    Ip6Saddr,
    Ip6Daddr,
    Ip6Nexthdr,
    Ip6Hoplimit,
    TcpSport,
    TcpDport,
    TcpFlags,
    TcpOptionMptcp,
    UdpSport,
    UdpDport,
    ThSport,
    ThDport,
    IcmpType,
    IcmpCode,
    Icmpv6Type,
    Icmpv6Code,
    ExthdrHbh,
    ExthdrRt,
    ExthdrFrag,
    ExthdrDst,
    ExthdrMh,
    MetaL4proto,
    MetaNfproto,
    MetaMark,
    MetaLength,
    MetaIif,
    MetaOif,
    MetaIifname,
    MetaOifname,
    MetaSkuid,
    MetaSkgid,
    CtState,
    CtMark,
}

/// Properties of a field of the policy language.
pub struct Facts {
    pub field: Field,
    pub text: &'static str,
    pub kind: Kind,
    pub bits: u32,
    /// IP version, 4 or 6; 0 means any.
    pub version: u8,
    /// Protocol that the field requires; 0 means any.
    pub protocol: u8,
}

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
pub const ICMPV6: u8 = 58;

const fn facts(
    field: Field,
    text: &'static str,
    kind: Kind,
    bits: u32,
    version: u8,
    protocol: u8,
) -> Facts {
    Facts {
        field,
        text,
        kind,
        bits,
        version,
        protocol,
    }
}

/// Field properties, in the order of [`Field`].
pub const FIELDS: [Facts; 40] = [
    facts(Field::IpSaddr, "ip saddr", Kind::Ipv4Addr, 32, 4, 0),
    facts(Field::IpDaddr, "ip daddr", Kind::Ipv4Addr, 32, 4, 0),
    facts(Field::IpProtocol, "ip protocol", Kind::InetProto, 8, 4, 0),
    facts(Field::IpTtl, "ip ttl", Kind::Integer, 8, 4, 0),
    facts(Field::IpDscp, "ip dscp", Kind::Dscp, 6, 4, 0),
    facts(Field::IpLength, "ip length", Kind::Integer, 16, 4, 0),
    facts(Field::IpFragOff, "ip frag-off", Kind::Integer, 16, 4, 0),
    facts(Field::Ip6Saddr, "ip6 saddr", Kind::Ipv6Addr, 128, 6, 0),
    facts(Field::Ip6Daddr, "ip6 daddr", Kind::Ipv6Addr, 128, 6, 0),
    facts(Field::Ip6Nexthdr, "ip6 nexthdr", Kind::InetProto, 8, 6, 0),
    facts(Field::Ip6Hoplimit, "ip6 hoplimit", Kind::Integer, 8, 6, 0),
    facts(Field::TcpSport, "tcp sport", Kind::InetService, 16, 0, TCP),
    facts(Field::TcpDport, "tcp dport", Kind::InetService, 16, 0, TCP),
    facts(Field::TcpFlags, "tcp flags", Kind::TcpFlag, 8, 0, TCP),
    facts(
        Field::TcpOptionMptcp,
        "tcp option mptcp",
        Kind::Boolean,
        1,
        0,
        0,
    ),
    facts(Field::UdpSport, "udp sport", Kind::InetService, 16, 0, UDP),
    facts(Field::UdpDport, "udp dport", Kind::InetService, 16, 0, UDP),
    facts(Field::ThSport, "th sport", Kind::InetService, 16, 0, 0),
    facts(Field::ThDport, "th dport", Kind::InetService, 16, 0, 0),
    facts(Field::IcmpType, "icmp type", Kind::IcmpType, 8, 4, ICMP),
    facts(Field::IcmpCode, "icmp code", Kind::IcmpCode, 8, 4, ICMP),
    facts(
        Field::Icmpv6Type,
        "icmpv6 type",
        Kind::Icmpv6Type,
        8,
        6,
        ICMPV6,
    ),
    facts(
        Field::Icmpv6Code,
        "icmpv6 code",
        Kind::Icmpv6Code,
        8,
        6,
        ICMPV6,
    ),
    facts(Field::ExthdrHbh, "exthdr hbh", Kind::Boolean, 1, 6, 0),
    facts(Field::ExthdrRt, "exthdr rt", Kind::Boolean, 1, 6, 0),
    facts(Field::ExthdrFrag, "exthdr frag", Kind::Boolean, 1, 6, 0),
    facts(Field::ExthdrDst, "exthdr dst", Kind::Boolean, 1, 6, 0),
    facts(Field::ExthdrMh, "exthdr mh", Kind::Boolean, 1, 6, 0),
    facts(Field::MetaL4proto, "meta l4proto", Kind::InetProto, 8, 0, 0),
    facts(Field::MetaNfproto, "meta nfproto", Kind::NfProto, 8, 0, 0),
    facts(Field::MetaMark, "meta mark", Kind::Mark, 32, 0, 0),
    facts(Field::MetaLength, "meta length", Kind::Integer, 32, 0, 0),
    facts(Field::MetaIif, "iif", Kind::IfaceIndex, 32, 0, 0),
    facts(Field::MetaOif, "oif", Kind::IfaceIndex, 32, 0, 0),
    facts(Field::MetaIifname, "iifname", Kind::Ifname, 128, 0, 0),
    facts(Field::MetaOifname, "oifname", Kind::Ifname, 128, 0, 0),
    facts(Field::MetaSkuid, "meta skuid", Kind::Uid, 32, 0, 0),
    facts(Field::MetaSkgid, "meta skgid", Kind::Gid, 32, 0, 0),
    facts(Field::CtState, "ct state", Kind::CtState, 32, 0, 0),
    facts(Field::CtMark, "ct mark", Kind::Mark, 32, 0, 0),
];

impl Facts {
    /// Returns true if the field may be in packets of this IP version. Rules can read the fields of ICMP in both.
    pub fn is_in(&self, version: u8) -> bool {
        self.version == 0 || self.version == version || self.is_icmp()
    }

    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, ICMP | ICMPV6)
    }
}

impl Field {
    pub fn facts(self) -> &'static Facts {
        &FIELDS[self as usize]
    }

    pub fn text(self) -> &'static str {
        self.facts().text
    }

    pub fn kind(self) -> Kind {
        self.facts().kind
    }

    /// Returns the largest value that the field can have.
    pub fn max(self) -> u128 {
        mask(self.facts().bits)
    }
}

/// Returns a mask of this number of low bits.
pub fn mask(bits: u32) -> u128 {
    if bits >= 128 {
        u128::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Values of a field from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub field: Field,
    pub low: u128,
    pub high: u128,
}

pub const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];
pub const CT_STATES: [(&str, u128); 5] = [
    ("invalid", 1),
    ("established", 2),
    ("related", 4),
    ("new", 8),
    ("untracked", 64),
];

/// Returns a kind's symbolic names that nft also knows, with their values.
pub fn names(kind: Kind) -> &'static [(&'static str, u128)] {
    match kind {
        Kind::InetProto => &[
            ("icmp", 1),
            ("igmp", 2),
            ("tcp", 6),
            ("udp", 17),
            ("dccp", 33),
            ("gre", 47),
            ("esp", 50),
            ("ah", 51),
            ("ipv6-icmp", 58),
            ("icmpv6", 58),
            ("ospf", 89),
            ("pim", 103),
            ("sctp", 132),
            ("udplite", 136),
        ],
        Kind::InetService => &[
            ("ssh", 22),
            ("telnet", 23),
            ("smtp", 25),
            ("domain", 53),
            ("http", 80),
            ("ntp", 123),
            ("https", 443),
            ("imaps", 993),
            ("mdns", 5353),
            ("http-alt", 8080),
        ],
        Kind::IcmpType => &[
            ("echo-reply", 0),
            ("destination-unreachable", 3),
            ("source-quench", 4),
            ("redirect", 5),
            ("echo-request", 8),
            ("time-exceeded", 11),
            ("parameter-problem", 12),
            ("timestamp-request", 13),
        ],
        Kind::IcmpCode => &[
            ("net-unreachable", 0),
            ("host-unreachable", 1),
            ("port-unreachable", 3),
            ("frag-needed", 4),
            ("host-prohibited", 10),
            ("admin-prohibited", 13),
        ],
        Kind::Icmpv6Type => &[
            ("destination-unreachable", 1),
            ("packet-too-big", 2),
            ("time-exceeded", 3),
            ("echo-request", 128),
            ("echo-reply", 129),
            ("nd-router-advert", 134),
            ("nd-neighbor-solicit", 135),
            ("nd-neighbor-advert", 136),
            ("nd-redirect", 137),
            ("mld2-listener-report", 143),
        ],
        Kind::Icmpv6Code => &[
            ("no-route", 0),
            ("admin-prohibited", 1),
            ("addr-unreachable", 3),
            ("port-unreachable", 4),
        ],
        Kind::Dscp => &[
            ("cs0", 0),
            ("cs1", 8),
            ("cs7", 56),
            ("af11", 10),
            ("af21", 18),
            ("af43", 38),
            ("ef", 46),
        ],
        Kind::NfProto => &[("ipv4", 2), ("ipv6", 10)],
        Kind::CtState => &CT_STATES,
        _ => &[],
    }
}

/// Formats a value. With `random`, in any of the language's formats; otherwise in the plainest format.
pub fn write(kind: Kind, value: u128, random: Option<&mut Random>) -> String {
    let way = random.map_or(usize::MAX, |random| random.below(100));
    let by_name = || {
        let names: Vec<_> = names(kind).iter().filter(|name| name.1 == value).collect();
        (!names.is_empty()).then(|| names[way % names.len()].0.to_string())
    };
    match kind {
        Kind::Ipv4Addr => Ipv4Addr::from(value as u32).to_string(),
        Kind::Ipv6Addr => write_ipv6(value, way),
        Kind::Ifname | Kind::IfaceIndex => format!("\"{}\"", interface_name(value)),
        Kind::Boolean => ["missing", "exists"][usize::from(value != 0)].to_string(),
        Kind::NfProto => names(kind)
            .iter()
            .find(|name| name.1 == value)
            .map_or(value.to_string(), |name| name.0.to_string()),
        Kind::TcpFlag => write_flags(&flag_names(kind, value), " | "),
        Kind::CtState => write_flags(&flag_names(kind, value), ","),
        _ => match way {
            0..50 => by_name().unwrap_or(value.to_string()),
            50..58 => format!("{value:#x}"),
            _ => value.to_string(),
        },
    }
}

fn write_ipv6(value: u128, way: usize) -> String {
    let address = Ipv6Addr::from(value);
    match way {
        0..15 => {
            let groups = address.segments().map(|group| format!("{group:x}"));
            groups.join(":")
        }
        15..30 => address.to_string().to_uppercase(),
        _ => address.to_string(),
    }
}

fn write_flags(names: &[&str], between: &str) -> String {
    if names.is_empty() {
        "0x0".to_string()
    } else {
        names.join(between)
    }
}

/// Returns the names of the bits that are set in a value: TCP flags for [`Kind::TcpFlag`], connection states for all
/// other kinds.
pub fn flag_names(kind: Kind, value: u128) -> Vec<&'static str> {
    let tcp = TCP_FLAGS
        .iter()
        .enumerate()
        .map(|(bit, name)| (*name, 1 << bit));
    let all: Vec<(&str, u128)> = match kind {
        Kind::TcpFlag => tcp.collect(),
        _ => CT_STATES.to_vec(),
    };
    let set = all.into_iter().filter(|(_, bit)| value & bit != 0);
    set.map(|(name, _)| name).collect()
}

/// Returns an interface's name as a number: its 16 bytes, NUL-padded, in wire order.
pub fn interface_value(name: &str) -> u128 {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    u128::from_be_bytes(bytes)
}

pub fn interface_name(value: u128) -> String {
    let bytes = value.to_be_bytes();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_fields() {
        for (index, facts) in FIELDS.iter().enumerate() {
            assert_eq!(facts.field as usize, index, "{}", facts.text);
        }
    }

    #[test]
    fn values_are_written_as_the_language_has_them() {
        assert_eq!(write(Kind::Ipv4Addr, 0x0a00_0001, None), "10.0.0.1");
        assert_eq!(write(Kind::Ipv6Addr, 1, None), "::1");
        assert_eq!(write(Kind::TcpFlag, 0x12, None), "syn | ack");
        assert_eq!(write(Kind::TcpFlag, 0, None), "0x0");
        assert_eq!(write(Kind::CtState, 6, None), "established,related");
        assert_eq!(
            write(Kind::Ifname, interface_value("eth0"), None),
            "\"eth0\""
        );
        assert_eq!(write(Kind::InetService, 22, None), "22");
    }
}
