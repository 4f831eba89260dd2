// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml.
//! The types and fields of the language.

/// Types of values in the policy language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
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
    /// Index of an interface; a policy has the interface's name, as for ifname; at run time the value is the index.
    IfaceIndex,
    Uid,
    Gid,
    /// Connection state: invalid 1, established 2, related 4, new 8, untracked 64 (NF_CT_STATE_BIT).
    CtState,
    /// Family of a packet: NFPROTO_IPV4 2, NFPROTO_IPV6 10.
    NfProto,
    Integer,
    /// Operand of a test whether a field exists: exists 1, missing 0.
    Boolean,
    /// Host name: its number in the policy's Hostnames; at run time, its number in the compiled policy.
    Hostname,
    /// ALPN protocol: in a policy, the 16 bytes of its name, like ifname; at run time, one of 32 bits.
    Alpn,
    /// TLS version, as on the wire: 1.0 is 0x0301, 1.3 0x0304.
    TlsVersion,
    /// HTTP method: the 16 bytes of its name, like ifname.
    HttpMethod,
    DnsType,
}

pub const TYPE_COUNT: usize = Type::DnsType as usize + 1;

/// Types that sets and maps can have by name, as bits 1 << Type.
pub const NAMEABLE_TYPES: u32 = 1 << Type::Ipv4Addr as u32
    | 1 << Type::Ipv6Addr as u32
    | 1 << Type::InetProto as u32
    | 1 << Type::InetService as u32
    | 1 << Type::IcmpType as u32
    | 1 << Type::Icmpv6Type as u32
    | 1 << Type::Mark as u32
    | 1 << Type::Ifname as u32
    | 1 << Type::IfaceIndex as u32
    | 1 << Type::Uid as u32
    | 1 << Type::Gid as u32
    | 1 << Type::Hostname as u32
    | 1 << Type::TlsVersion as u32
    | 1 << Type::HttpMethod as u32
    | 1 << Type::DnsType as u32;

/// Source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The IPv4 header.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// The IPv6 extension headers.
    Extension,
    /// The bytes after the network header.
    Transport,
    /// The options of the TCP header.
    TcpOption,
    /// The number of the protocol after the network header.
    Protocol,
    /// The packet's length, from the kernel.
    Length,
    /// Metadata of every packet.
    Meta,
    /// Names of the interfaces, looked up by their indexes.
    InterfaceName,
    /// Owner of the sending socket, which the kernel adds on request.
    Owner,
    /// State of the connection, which the kernel adds on request, or which is read from the packet mark.
    CtState,
    /// Mark of the connection, which the kernel adds on request.
    CtMark,
    /// Names sent by the client, read from the packets of its connection.
    Names,
}

/// Fields that a policy can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    IcmpTypeAny,
    IcmpCodeAny,
    Icmpv6TypeAny,
    Icmpv6CodeAny,
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
    TlsSni,
    TlsSniExists,
    TlsAlpn,
    TlsVersion,
    TlsEch,
    HttpHost,
    HttpHostExists,
    HttpMethod,
    DnsName,
    DnsNameExists,
    DnsType,
}

pub const FIELD_COUNT: usize = Field::DnsType as usize + 1;

/// IP version that a field needs: any, IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer3 {
    Any,
    NeedsIpv4,
    NeedsIpv6,
}

/// Properties of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldFacts {
    /// The field itself.
    pub field: Field,
    /// Canonical text, e.g. "tcp dport".
    pub text: &'static str,
    pub kind: Type,
    pub bits: u8,
    pub part: Part,
    pub layer3: Layer3,
    /// IPPROTO_* that the field needs; 0 = any.
    pub protocol: u8,
}

const fn facts(
    field: Field,
    text: &'static str,
    kind: Type,
    bits: u8,
    part: Part,
    layer3: Layer3,
    protocol: i32,
) -> FieldFacts {
    FieldFacts {
        field,
        text,
        kind,
        bits,
        part,
        layer3,
        protocol: protocol as u8,
    }
}

/// Properties of all fields, in the order of `Field`.
#[rustfmt::skip]
pub const FIELDS: [FieldFacts; FIELD_COUNT] = [
    facts(Field::IpSaddr, "ip saddr", Type::Ipv4Addr, 32, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpDaddr, "ip daddr", Type::Ipv4Addr, 32, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpProtocol, "ip protocol", Type::InetProto, 8, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpTtl, "ip ttl", Type::Integer, 8, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpDscp, "ip dscp", Type::Dscp, 6, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpLength, "ip length", Type::Integer, 16, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::IpFragOff, "ip frag-off", Type::Integer, 16, Part::Ipv4, Layer3::NeedsIpv4, 0),
    facts(Field::Ip6Saddr, "ip6 saddr", Type::Ipv6Addr, 128, Part::Ipv6, Layer3::NeedsIpv6, 0),
    facts(Field::Ip6Daddr, "ip6 daddr", Type::Ipv6Addr, 128, Part::Ipv6, Layer3::NeedsIpv6, 0),
    facts(Field::Ip6Nexthdr, "ip6 nexthdr", Type::InetProto, 8, Part::Ipv6, Layer3::NeedsIpv6, 0),
    facts(Field::Ip6Hoplimit, "ip6 hoplimit", Type::Integer, 8, Part::Ipv6, Layer3::NeedsIpv6, 0),
    facts(Field::TcpSport, "tcp sport", Type::InetService, 16, Part::Transport, Layer3::Any, libc::IPPROTO_TCP),
    facts(Field::TcpDport, "tcp dport", Type::InetService, 16, Part::Transport, Layer3::Any, libc::IPPROTO_TCP),
    facts(Field::TcpFlags, "tcp flags", Type::TcpFlag, 8, Part::Transport, Layer3::Any, libc::IPPROTO_TCP),
    facts(Field::TcpOptionMptcp, "tcp option mptcp", Type::Boolean, 1, Part::TcpOption, Layer3::Any, 0),
    facts(Field::UdpSport, "udp sport", Type::InetService, 16, Part::Transport, Layer3::Any, libc::IPPROTO_UDP),
    facts(Field::UdpDport, "udp dport", Type::InetService, 16, Part::Transport, Layer3::Any, libc::IPPROTO_UDP),
    facts(Field::ThSport, "th sport", Type::InetService, 16, Part::Transport, Layer3::Any, 0),
    facts(Field::ThDport, "th dport", Type::InetService, 16, Part::Transport, Layer3::Any, 0),
    facts(Field::IcmpType, "icmp type", Type::IcmpType, 8, Part::Transport, Layer3::NeedsIpv4, libc::IPPROTO_ICMP),
    facts(Field::IcmpCode, "icmp code", Type::IcmpCode, 8, Part::Transport, Layer3::NeedsIpv4, libc::IPPROTO_ICMP),
    facts(Field::Icmpv6Type, "icmpv6 type", Type::Icmpv6Type, 8, Part::Transport, Layer3::NeedsIpv6, libc::IPPROTO_ICMPV6),
    facts(Field::Icmpv6Code, "icmpv6 code", Type::Icmpv6Code, 8, Part::Transport, Layer3::NeedsIpv6, libc::IPPROTO_ICMPV6),
    facts(Field::IcmpTypeAny, "icmp type", Type::IcmpType, 8, Part::Transport, Layer3::Any, libc::IPPROTO_ICMP),
    facts(Field::IcmpCodeAny, "icmp code", Type::IcmpCode, 8, Part::Transport, Layer3::Any, libc::IPPROTO_ICMP),
    facts(Field::Icmpv6TypeAny, "icmpv6 type", Type::Icmpv6Type, 8, Part::Transport, Layer3::Any, libc::IPPROTO_ICMPV6),
    facts(Field::Icmpv6CodeAny, "icmpv6 code", Type::Icmpv6Code, 8, Part::Transport, Layer3::Any, libc::IPPROTO_ICMPV6),
    facts(Field::ExthdrHbh, "exthdr hbh", Type::Boolean, 1, Part::Extension, Layer3::NeedsIpv6, 0),
    facts(Field::ExthdrRt, "exthdr rt", Type::Boolean, 1, Part::Extension, Layer3::NeedsIpv6, 0),
    facts(Field::ExthdrFrag, "exthdr frag", Type::Boolean, 1, Part::Extension, Layer3::NeedsIpv6, 0),
    facts(Field::ExthdrDst, "exthdr dst", Type::Boolean, 1, Part::Extension, Layer3::NeedsIpv6, 0),
    facts(Field::ExthdrMh, "exthdr mh", Type::Boolean, 1, Part::Extension, Layer3::NeedsIpv6, 0),
    facts(Field::MetaL4proto, "meta l4proto", Type::InetProto, 8, Part::Protocol, Layer3::Any, 0),
    facts(Field::MetaNfproto, "meta nfproto", Type::NfProto, 8, Part::Meta, Layer3::Any, 0),
    facts(Field::MetaMark, "meta mark", Type::Mark, 32, Part::Meta, Layer3::Any, 0),
    facts(Field::MetaLength, "meta length", Type::Integer, 32, Part::Length, Layer3::Any, 0),
    facts(Field::MetaIif, "iif", Type::IfaceIndex, 32, Part::Meta, Layer3::Any, 0),
    facts(Field::MetaOif, "oif", Type::IfaceIndex, 32, Part::Meta, Layer3::Any, 0),
    facts(Field::MetaIifname, "iifname", Type::Ifname, 128, Part::InterfaceName, Layer3::Any, 0),
    facts(Field::MetaOifname, "oifname", Type::Ifname, 128, Part::InterfaceName, Layer3::Any, 0),
    facts(Field::MetaSkuid, "meta skuid", Type::Uid, 32, Part::Owner, Layer3::Any, 0),
    facts(Field::MetaSkgid, "meta skgid", Type::Gid, 32, Part::Owner, Layer3::Any, 0),
    facts(Field::CtState, "ct state", Type::CtState, 32, Part::CtState, Layer3::Any, 0),
    facts(Field::CtMark, "ct mark", Type::Mark, 32, Part::CtMark, Layer3::Any, 0),
    facts(Field::TlsSni, "tls sni", Type::Hostname, 32, Part::Names, Layer3::Any, 0),
    facts(Field::TlsSniExists, "tls sni", Type::Boolean, 1, Part::Names, Layer3::Any, 0),
    facts(Field::TlsAlpn, "tls alpn", Type::Alpn, 32, Part::Names, Layer3::Any, 0),
    facts(Field::TlsVersion, "tls version", Type::TlsVersion, 16, Part::Names, Layer3::Any, 0),
    facts(Field::TlsEch, "tls ech", Type::Boolean, 1, Part::Names, Layer3::Any, 0),
    facts(Field::HttpHost, "http host", Type::Hostname, 32, Part::Names, Layer3::Any, 0),
    facts(Field::HttpHostExists, "http host", Type::Boolean, 1, Part::Names, Layer3::Any, 0),
    facts(Field::HttpMethod, "http method", Type::HttpMethod, 128, Part::Names, Layer3::Any, 0),
    facts(Field::DnsName, "dns name", Type::Hostname, 32, Part::Names, Layer3::Any, 0),
    facts(Field::DnsNameExists, "dns name", Type::Boolean, 1, Part::Names, Layer3::Any, 0),
    facts(Field::DnsType, "dns type", Type::DnsType, 16, Part::Names, Layer3::Any, 0),
];

/// Fields of `Part::Ipv4`, as bits 1 << Field. The source of their values:
/// the IPv4 header.
pub const FIELDS_OF_IPV4: u64 = 1 << Field::IpSaddr as u64
    | 1 << Field::IpDaddr as u64
    | 1 << Field::IpProtocol as u64
    | 1 << Field::IpTtl as u64
    | 1 << Field::IpDscp as u64
    | 1 << Field::IpLength as u64
    | 1 << Field::IpFragOff as u64;
/// Fields of `Part::Ipv6`, as bits 1 << Field. The source of their values:
/// the IPv6 header.
pub const FIELDS_OF_IPV6: u64 = 1 << Field::Ip6Saddr as u64
    | 1 << Field::Ip6Daddr as u64
    | 1 << Field::Ip6Nexthdr as u64
    | 1 << Field::Ip6Hoplimit as u64;
/// Fields of `Part::Extension`, as bits 1 << Field. The source of their values:
/// the IPv6 extension headers.
pub const FIELDS_OF_EXTENSION: u64 = 1 << Field::ExthdrHbh as u64
    | 1 << Field::ExthdrRt as u64
    | 1 << Field::ExthdrFrag as u64
    | 1 << Field::ExthdrDst as u64
    | 1 << Field::ExthdrMh as u64;
/// Fields of `Part::Transport`, as bits 1 << Field. The source of their values:
/// the bytes after the network header.
pub const FIELDS_OF_TRANSPORT: u64 = 1 << Field::TcpSport as u64
    | 1 << Field::TcpDport as u64
    | 1 << Field::TcpFlags as u64
    | 1 << Field::UdpSport as u64
    | 1 << Field::UdpDport as u64
    | 1 << Field::ThSport as u64
    | 1 << Field::ThDport as u64
    | 1 << Field::IcmpType as u64
    | 1 << Field::IcmpCode as u64
    | 1 << Field::Icmpv6Type as u64
    | 1 << Field::Icmpv6Code as u64
    | 1 << Field::IcmpTypeAny as u64
    | 1 << Field::IcmpCodeAny as u64
    | 1 << Field::Icmpv6TypeAny as u64
    | 1 << Field::Icmpv6CodeAny as u64;
/// Fields of `Part::TcpOption`, as bits 1 << Field. The source of their values:
/// the options of the TCP header.
pub const FIELDS_OF_TCP_OPTION: u64 = 1 << Field::TcpOptionMptcp as u64;
/// Fields of `Part::Protocol`, as bits 1 << Field. The source of their values:
/// the number of the protocol after the network header.
pub const FIELDS_OF_PROTOCOL: u64 = 1 << Field::MetaL4proto as u64;
/// Fields of `Part::Length`, as bits 1 << Field. The source of their values:
/// the packet's length, from the kernel.
pub const FIELDS_OF_LENGTH: u64 = 1 << Field::MetaLength as u64;
/// Fields of `Part::Meta`, as bits 1 << Field. The source of their values:
/// metadata of every packet.
pub const FIELDS_OF_META: u64 = 1 << Field::MetaNfproto as u64
    | 1 << Field::MetaMark as u64
    | 1 << Field::MetaIif as u64
    | 1 << Field::MetaOif as u64;
/// Fields of `Part::InterfaceName`, as bits 1 << Field. The source of their values:
/// names of the interfaces, looked up by their indexes.
pub const FIELDS_OF_INTERFACE_NAME: u64 =
    1 << Field::MetaIifname as u64 | 1 << Field::MetaOifname as u64;
/// Fields of `Part::Owner`, as bits 1 << Field. The source of their values:
/// owner of the sending socket, which the kernel adds on request.
pub const FIELDS_OF_OWNER: u64 = 1 << Field::MetaSkuid as u64 | 1 << Field::MetaSkgid as u64;
/// Fields of `Part::CtState`, as bits 1 << Field. The source of their values:
/// state of the connection, which the kernel adds on request, or which is read from the packet mark.
pub const FIELDS_OF_CT_STATE: u64 = 1 << Field::CtState as u64;
/// Fields of `Part::CtMark`, as bits 1 << Field. The source of their values:
/// mark of the connection, which the kernel adds on request.
pub const FIELDS_OF_CT_MARK: u64 = 1 << Field::CtMark as u64;
/// Fields of `Part::Names`, as bits 1 << Field. The source of their values:
/// names sent by the client, read from the packets of its connection.
pub const FIELDS_OF_NAMES: u64 = 1 << Field::TlsSni as u64
    | 1 << Field::TlsSniExists as u64
    | 1 << Field::TlsAlpn as u64
    | 1 << Field::TlsVersion as u64
    | 1 << Field::TlsEch as u64
    | 1 << Field::HttpHost as u64
    | 1 << Field::HttpHostExists as u64
    | 1 << Field::HttpMethod as u64
    | 1 << Field::DnsName as u64
    | 1 << Field::DnsNameExists as u64
    | 1 << Field::DnsType as u64;

/// All types, in order, with their names in the language.
pub const TYPES: [(Type, &str); TYPE_COUNT] = [
    (Type::Ipv4Addr, "ipv4_addr"),
    (Type::Ipv6Addr, "ipv6_addr"),
    (Type::InetProto, "inet_proto"),
    (Type::InetService, "inet_service"),
    (Type::TcpFlag, "tcp_flag"),
    (Type::IcmpType, "icmp_type"),
    (Type::IcmpCode, "icmp_code"),
    (Type::Icmpv6Type, "icmpv6_type"),
    (Type::Icmpv6Code, "icmpv6_code"),
    (Type::Dscp, "dscp"),
    (Type::Mark, "mark"),
    (Type::Ifname, "ifname"),
    (Type::IfaceIndex, "iface_index"),
    (Type::Uid, "uid"),
    (Type::Gid, "gid"),
    (Type::CtState, "ct_state"),
    (Type::NfProto, "nf_proto"),
    (Type::Integer, "integer"),
    (Type::Boolean, "boolean"),
    (Type::Hostname, "hostname"),
    (Type::Alpn, "alpn"),
    (Type::TlsVersion, "tls_version"),
    (Type::HttpMethod, "http_method"),
    (Type::DnsType, "dns_type"),
];

/// Returns the properties of a field.
pub fn field_facts(field: Field) -> &'static FieldFacts {
    &FIELDS[field as usize]
}
