// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/symbols.toml.
//! The names of numbers.

use crate::spec::field::Type;

/// Name in the policy language, and the number that it means.
pub type Symbol = (&'static str, u32);

/// The names of protocols of IP.
pub const PROTOCOLS: &[Symbol] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("sctp", 132),
    ("udplite", 136),
];

/// Names that are printed in place of numbers. A number that is not here is printed as a number.
const PROTOCOLS_PRINTED: &[Symbol] = &[
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("esp", 50),
    ("ah", 51),
    ("icmp", 1),
    ("ipv6-icmp", 58),
    ("dccp", 33),
    ("sctp", 132),
];

/// The names of ports of TCP and UDP.
pub const SERVICES: &[Symbol] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("imap2", 143),
    ("snmp", 161),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("submissions", 465),
    ("isakmp", 500),
    ("syslog", 514),
    ("submission", 587),
    ("ldaps", 636),
    ("imaps", 993),
    ("pop3s", 995),
    ("openvpn", 1194),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("ipsec-nat-t", 4500),
    ("postgresql", 5432),
    ("mdns", 5353),
    ("redis", 6379),
    ("http-alt", 8080),
];

/// The names of bits of byte 13 of the TCP header (RFC 9293).
pub const TCP_FLAGS: &[Symbol] = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ecn", 64),
    ("cwr", 128),
];

/// The names of types of ICMP (RFC 792).
pub const ICMP_TYPES: &[Symbol] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// The names of codes of ICMP type 3.
pub const ICMP_CODES: &[Symbol] = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

/// The names of types of ICMPv6 (RFC 4443).
pub const ICMPV6_TYPES: &[Symbol] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// The names of codes of ICMPv6 type 1.
pub const ICMPV6_CODES: &[Symbol] = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

/// The names of code points of differentiated services (RFC 2474).
pub const DSCPS: &[Symbol] = &[
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
];

/// The names of bits of the state of a connection (NF_CT_STATE_BIT).
pub const CT_STATES: &[Symbol] = &[
    ("invalid", 1),
    ("established", 2),
    ("related", 4),
    ("new", 8),
    ("untracked", 64),
];

/// The names of families of packets (NFPROTO_*).
pub const NF_PROTOS: &[Symbol] = &[("ipv4", 2), ("ipv6", 10)];

/// The names of results of tests whether a field exists.
pub const BOOLEANS: &[Symbol] = &[("exists", 1), ("missing", 0)];

/// The names of versions of TLS (RFC 8446, section 4.2.1).
pub const TLS_VERSIONS: &[Symbol] = &[("1.0", 769), ("1.1", 770), ("1.2", 771), ("1.3", 772)];

/// The names of types of DNS (RFC 1035, section 3.2.2, and those after it).
pub const DNS_TYPES: &[Symbol] = &[
    ("a", 1),
    ("ns", 2),
    ("cname", 5),
    ("soa", 6),
    ("ptr", 12),
    ("hinfo", 13),
    ("mx", 15),
    ("txt", 16),
    ("aaaa", 28),
    ("srv", 33),
    ("naptr", 35),
    ("ds", 43),
    ("sshfp", 44),
    ("rrsig", 46),
    ("nsec", 47),
    ("dnskey", 48),
    ("tlsa", 52),
    ("svcb", 64),
    ("https", 65),
    ("spf", 99),
    ("ixfr", 251),
    ("axfr", 252),
    ("any", 255),
    ("caa", 257),
];

/// The names of codes of reject with icmp: fewer than icmp_code has.
pub const REJECT_ICMP: &[Symbol] = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

/// The names of codes of reject with icmpx (enum nft_reject_inet_code).
pub const REJECT_ICMPX: &[Symbol] = &[
    ("port-unreachable", 1),
    ("admin-prohibited", 3),
    ("no-route", 0),
    ("host-unreachable", 2),
];

/// The names of levels of log.
pub const LEVELS: &[Symbol] = &[
    ("emerg", 0),
    ("alert", 1),
    ("crit", 2),
    ("err", 3),
    ("warn", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
];

/// The names of units of limit, in seconds.
pub const UNITS: &[Symbol] = &[
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86400),
    ("week", 604800),
];

/// Returns the names for values of a type in the language; empty if there are none.
pub fn symbols_of(kind: Type) -> &'static [Symbol] {
    match kind {
        Type::InetProto => PROTOCOLS,
        Type::InetService => SERVICES,
        Type::TcpFlag => TCP_FLAGS,
        Type::IcmpType => ICMP_TYPES,
        Type::IcmpCode => ICMP_CODES,
        Type::Icmpv6Type => ICMPV6_TYPES,
        Type::Icmpv6Code => ICMPV6_CODES,
        Type::Dscp => DSCPS,
        Type::CtState => CT_STATES,
        Type::NfProto => NF_PROTOS,
        Type::Boolean => BOOLEANS,
        Type::TlsVersion => TLS_VERSIONS,
        Type::DnsType => DNS_TYPES,
        _ => &[],
    }
}

/// Returns the names that are printed in place of a type's numbers; empty if there are none.
pub fn symbols_printed(kind: Type) -> &'static [Symbol] {
    match kind {
        Type::InetProto => PROTOCOLS_PRINTED,
        Type::TcpFlag => TCP_FLAGS,
        Type::IcmpType => ICMP_TYPES,
        Type::Icmpv6Type => ICMPV6_TYPES,
        Type::Dscp => DSCPS,
        Type::CtState => CT_STATES,
        Type::NfProto => NF_PROTOS,
        Type::Boolean => BOOLEANS,
        Type::TlsVersion => TLS_VERSIONS,
        Type::DnsType => DNS_TYPES,
        _ => &[],
    }
}
