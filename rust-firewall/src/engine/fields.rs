// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields of a packet for a policy: read once, then compared by all rules.
#![deny(clippy::indexing_slicing)]

use crate::engine::types::DecideInput;
use crate::names::{Names, NamesProtocol, NamesState};
use crate::packet::{self, Packet, TCP_FLAGS_OFFSET, TCP_LENGTH_OFFSET};
use crate::policy::value::short;
use crate::policy::{
    Field, FIELDS_OF_EXTENSION, FIELDS_OF_IPV4, FIELDS_OF_IPV6, FIELDS_OF_NAMES,
    FIELDS_OF_PROTOCOL, FIELDS_OF_TCP_OPTION, FIELDS_OF_TRANSPORT, FIELD_COUNT, KEY_FIELDS_MAX,
};

/// Value of NFPROTO_IPV4 (linux/netfilter.h).
pub const IPV4: u8 = 2;
/// Value of NFPROTO_IPV6.
pub const IPV6: u8 = 10;
/// Number of wide fields: ip6 saddr, ip6 daddr, iifname, oifname, http method.
pub const WIDE_COUNT: usize = 5;
pub const KEY_WORDS_MAX: usize = 2 * KEY_FIELDS_MAX;

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
/// Port of DNS servers.
const DNS_PORT: u16 = 53;
/// Kind of the TCP option NOP: padding of one byte.
const OPTION_NOP: u8 = 1;
/// Kind of the TCP option Multipath TCP (RFC 8684).
const OPTION_MPTCP: u8 = 30;
/// Maximum number of bytes of a transport header that are read, without options.
const TRANSPORT_READ_BYTES: usize = TCP_FLAGS_OFFSET + 1;

/// Values of a packet's fields. Fields of up to 32 bits are narrow, others wide. A field is present, absent from the
/// packet (in no mask), beyond the captured bytes (the packet has it or may have it), or unknown (a name, or a mark
/// with several possible values).
#[derive(Clone, Debug)]
pub struct Fields {
    /// Bit n is set if field n has a value.
    pub present: u64,
    /// Bit n is set if field n lies beyond the captured bytes.
    pub beyond: u64,
    /// Bit n is set if field n is a name that is not known yet or is unreadable, or a mark with several possible
    /// values.
    pub unknown: u64,
    narrow: [u32; FIELD_COUNT],
    /// Values of wide fields, by `wide_slot`.
    wide: [u128; WIDE_COUNT],
}

/// Creates fields that contain only the names of the interfaces. The names split the zeros into parts that are short
/// enough to be written inline: the compiler clears more than 256 bytes in a row by a call of memset.
impl From<&DecideInput<'_>> for Fields {
    #[inline(always)]
    fn from(input: &DecideInput) -> Self {
        Fields {
            present: bit(Field::MetaIifname) | bit(Field::MetaOifname),
            beyond: 0,
            unknown: 0,
            narrow: [0; FIELD_COUNT],
            wide: [0, 0, input.iifname, input.oifname, 0],
        }
    }
}

/// Returns the bit of a field in the masks of `Fields`.
pub const fn bit(field: Field) -> u64 {
    1 << field as u64
}

const TRANSPORT_FIELDS: u64 = FIELDS_OF_TRANSPORT | FIELDS_OF_PROTOCOL;

const ICMP_FIELDS: u64 = bit(Field::IcmpType) | bit(Field::IcmpCode);

const ICMPV6_FIELDS: u64 = bit(Field::Icmpv6Type) | bit(Field::Icmpv6Code);

/// Returns the bits of the ICMP fields that packets of this family never have.
const fn other_icmp(nfproto: u8) -> u64 {
    match nfproto {
        IPV4 => ICMPV6_FIELDS,
        _ => ICMP_FIELDS,
    }
}

const DNS_FIELDS: u64 = bit(Field::DnsNameExists) | bit(Field::DnsName) | bit(Field::DnsType);

/// Bits of the header fields after the IP header, of all protocols.
pub const BEHIND_IP: u64 = TRANSPORT_FIELDS | FIELDS_OF_EXTENSION | FIELDS_OF_TCP_OPTION;

/// Returns true if a field has a value.
pub fn is_present(fields: &Fields, field: Field) -> bool {
    fields.present & bit(field) != 0
}

/// Returns true if the packet's names are known, and the policy reads names. Then `tls ech` has a value, whatever the
/// protocol.
pub fn has_names(fields: &Fields) -> bool {
    is_present(fields, Field::TlsEch)
}

/// Returns the value of a narrow field that is present.
pub fn narrow(fields: &Fields, field: Field) -> u32 {
    fields.narrow.get(field as usize).map_or(0, |&value| value)
}

/// Returns the value of a wide field that is present.
pub fn wide(fields: &Fields, slot: usize) -> u128 {
    fields.wide.get(slot).map_or(0, |&value| value)
}

fn be16(high: u8, low: u8) -> u32 {
    u16::from_be_bytes([high, low]).into()
}

/// Sets the value of a narrow field.
pub fn set(fields: &mut Fields, field: Field, value: u32) {
    fields.present |= bit(field);
    if let Some(narrow) = fields.narrow.get_mut(field as usize) {
        *narrow = value;
    }
}

/// Sets the value of a wide field.
pub fn set_wide(fields: &mut Fields, field: Field, value: u128) {
    fields.present |= bit(field);
    let slot = wide_slot(field).and_then(|slot| fields.wide.get_mut(slot));
    if let Some(wide) = slot {
        *wide = value;
    }
}

/// Returns the index of a wide field (more than 32 bits) in `Fields::wide`. Returns None for a narrow field.
pub fn wide_slot(field: Field) -> Option<usize> {
    match field {
        Field::Ip6Saddr => Some(0),
        Field::Ip6Daddr => Some(1),
        Field::MetaIifname => Some(2),
        Field::MetaOifname => Some(3),
        Field::HttpMethod => Some(4),
        _ => None,
    }
}

fn set_if(fields: &mut Fields, field: Field, value: Option<u32>) {
    if let Some(value) = value {
        set(fields, field, value);
    }
}

fn read_metadata(fields: &mut Fields, nfproto: u8, input: &DecideInput) {
    set(fields, Field::MetaNfproto, nfproto.into());
    set(fields, Field::MetaMark, input.mark);
    set(fields, Field::MetaLength, input.length);
    set(fields, Field::MetaIif, input.iif);
    set(fields, Field::MetaOif, input.oif);
    set_if(fields, Field::MetaSkuid, input.uid);
    set_if(fields, Field::MetaSkgid, input.gid);
    set_if(fields, Field::CtState, input.ct_state);
    set_if(fields, Field::CtMark, input.ct_mark);
}

fn read_ipv4(fields: &mut Fields, packet: &Packet) {
    let ip = packet
        .bytes
        .first_chunk::<{ packet::IPV4_HEADER_BYTES as usize }>();
    let Some(ip) = ip.filter(|_| packet.version == 4) else {
        if ip.is_none() && packet.headers_beyond {
            fields.beyond |= FIELDS_OF_IPV4;
        }
        return;
    };
    let [_, tos, length_high, length_low, _, _, offset_high, offset_low, ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
        *ip;
    set(fields, Field::IpDscp, u32::from(tos >> 2));
    set(fields, Field::IpLength, be16(length_high, length_low));
    set(fields, Field::IpFragOff, be16(offset_high, offset_low));
    set(fields, Field::IpTtl, ttl.into());
    set(fields, Field::IpProtocol, protocol.into());
    let saddr = u32::from_be_bytes([s0, s1, s2, s3]);
    let daddr = u32::from_be_bytes([d0, d1, d2, d3]);
    set(fields, Field::IpSaddr, saddr);
    set(fields, Field::IpDaddr, daddr);
}

fn read_ipv6(fields: &mut Fields, packet: &Packet) {
    let ip = packet
        .bytes
        .first_chunk::<{ packet::IPV6_HEADER_BYTES as usize }>();
    let Some((fixed, addresses)) = ip
        .filter(|_| packet.version == 6)
        .and_then(|ip| ip.split_first_chunk::<8>())
    else {
        if ip.is_none() && packet.headers_beyond {
            fields.beyond |= FIELDS_OF_IPV6;
        }
        return;
    };
    let [_, _, _, _, _, _, nexthdr, hoplimit] = *fixed;
    set(fields, Field::Ip6Nexthdr, nexthdr.into());
    set(fields, Field::Ip6Hoplimit, hoplimit.into());
    if let Some((saddr, daddr)) = addresses.split_first_chunk::<16>() {
        set_wide(fields, Field::Ip6Saddr, u128::from_be_bytes(*saddr));
        if let Some(daddr) = daddr.first_chunk::<16>() {
            set_wide(fields, Field::Ip6Daddr, u128::from_be_bytes(*daddr));
        }
    }
}

/// Sets a field to whether the packet has an extension header. The field is beyond the copy if the header may follow
/// the captured bytes.
fn read_extension(fields: &mut Fields, field: Field, packet: &Packet, extension: u8) {
    let met = packet.extensions & extension != 0;
    if packet.headers_beyond && !met {
        fields.beyond |= bit(field);
    } else {
        set(fields, field, met.into());
    }
}

fn read_extensions(fields: &mut Fields, packet: &Packet) {
    let has_header = packet.bytes.len() >= packet::IPV6_HEADER_BYTES as usize;
    if packet.version != 6 || !has_header {
        if !has_header && packet.headers_beyond {
            fields.beyond |= FIELDS_OF_EXTENSION;
        }
        return;
    }
    read_extension(fields, Field::ExthdrHbh, packet, packet::EXTENSION_HBH);
    read_extension(fields, Field::ExthdrRt, packet, packet::EXTENSION_RT);
    read_extension(fields, Field::ExthdrFrag, packet, packet::EXTENSION_FRAG);
    read_extension(fields, Field::ExthdrDst, packet, packet::EXTENSION_DST);
    read_extension(fields, Field::ExthdrMh, packet, packet::EXTENSION_MH);
}

/// Returns the captured bytes of the transport header and its payload, within the length in the IP header.
fn transport_bytes<'a>(packet: &Packet<'a>) -> &'a [u8] {
    let end = packet.bytes.len().min(packet.end as usize);
    if packet.transport_offset == 0 {
        return &[];
    }
    let header = packet.bytes.get(packet.transport_offset as usize..end);
    header.unwrap_or_default()
}

fn read_ports(fields: &mut Fields, source: Field, destination: Field, header: &[u8]) {
    if let &[high, low, ..] = header {
        set(fields, source, be16(high, low));
    }
    if let &[_, _, high, low, ..] = header {
        set(fields, destination, be16(high, low));
    }
}

fn read_icmp(fields: &mut Fields, kind: Field, code: Field, header: &[u8]) {
    set_if(fields, kind, header.first().map(|&byte| byte.into()));
    set_if(fields, code, header.get(1).map(|&byte| byte.into()));
}

/// Returns the bits of a protocol's fields that lie within this many bytes of a transport header.
fn fields_within(protocol: u8, nfproto: u8, bytes: usize) -> u64 {
    let within = |field: Field, end: usize| if bytes >= end { bit(field) } else { 0 };
    let ports = |source, destination| within(source, 2) | within(destination, 4);
    let icmp = |kind, code| within(kind, 1) | within(code, 2);
    let others = match protocol {
        TCP => {
            ports(Field::TcpSport, Field::TcpDport) | within(Field::TcpFlags, TCP_FLAGS_OFFSET + 1)
        }
        UDP => ports(Field::UdpSport, Field::UdpDport),
        ICMP => {
            icmp(Field::IcmpType, Field::IcmpCode) | icmp(Field::IcmpTypeAny, Field::IcmpCodeAny)
        }
        ICMPV6 => {
            icmp(Field::Icmpv6Type, Field::Icmpv6Code)
                | icmp(Field::Icmpv6TypeAny, Field::Icmpv6CodeAny)
        }
        _ => 0,
    };
    (ports(Field::ThSport, Field::ThDport) | others) & !other_icmp(nfproto)
}

/// Returns the length of the transport header and its payload in the packet, captured or not.
fn transport_there(packet: &Packet) -> usize {
    match packet.transport_offset {
        0 => 0,
        offset => packet.end.saturating_sub(offset) as usize,
    }
}

/// Marks the fields of the transport header that lie beyond the captured bytes.
/// - bytes: number of captured bytes of the transport header and its payload.
fn note_beyond(fields: &mut Fields, nfproto: u8, packet: &Packet, bytes: usize) {
    let protocol = packet.transport_protocol;
    let there = transport_there(packet);
    fields.beyond |=
        fields_within(protocol, nfproto, there) & !fields_within(protocol, nfproto, bytes);
}

/// Reads the transport header like nft_payload, field by field: a header that is too short has only the fields that lie
/// completely within it.
fn read_transport(fields: &mut Fields, nfproto: u8, packet: &Packet) {
    if !packet.has_transport {
        if packet.headers_beyond {
            fields.beyond |= TRANSPORT_FIELDS & !other_icmp(nfproto);
        }
        return;
    }
    let header = transport_bytes(packet);
    set(fields, Field::MetaL4proto, packet.transport_protocol.into());
    if header.len() < TRANSPORT_READ_BYTES && packet.bytes.len() < packet.end as usize {
        note_beyond(fields, nfproto, packet, header.len());
    }
    if header.is_empty() {
        return;
    }
    read_ports(fields, Field::ThSport, Field::ThDport, header);
    match packet.transport_protocol {
        TCP => {
            read_ports(fields, Field::TcpSport, Field::TcpDport, header);
            let flags = header.get(TCP_FLAGS_OFFSET).map(|&byte| byte.into());
            set_if(fields, Field::TcpFlags, flags);
        }
        UDP => read_ports(fields, Field::UdpSport, Field::UdpDport, header),
        ICMP => {
            read_icmp(fields, Field::IcmpTypeAny, Field::IcmpCodeAny, header);
            if nfproto == IPV4 {
                read_icmp(fields, Field::IcmpType, Field::IcmpCode, header);
            }
        }
        ICMPV6 => {
            read_icmp(fields, Field::Icmpv6TypeAny, Field::Icmpv6CodeAny, header);
            if nfproto == IPV6 {
                read_icmp(fields, Field::Icmpv6Type, Field::Icmpv6Code, header);
            }
        }
        _ => {}
    }
}

/// Returns true if a TCP header has an option, by the search of nft_exthdr_tcp_eval: a kind of 0 does not end the
/// options, and an option with the length 0 has one byte.
fn has_option(header: &[u8], wanted: u8) -> bool {
    let mut left = header
        .get(packet::TCP_HEADER_BYTES as usize..)
        .unwrap_or_default();
    while let [kind, length, ..] = *left {
        let bytes = match kind <= OPTION_NOP || length == 0 {
            true => 1,
            false => length.into(),
        };
        let Some(behind) = left.get(bytes..) else {
            return false;
        };
        if kind == wanted {
            return true;
        }
        left = behind;
    }
    false
}

/// Sets a field to whether a packet has a TCP option. A packet that contains no complete TCP header has no options. The
/// field is beyond the copy if a part of the header was not captured.
/// - wanted: kind of the option.
fn read_option(fields: &mut Fields, field: Field, packet: &Packet, wanted: u8) {
    let header = transport_bytes(packet);
    let there = match packet.has_transport && packet.transport_protocol == TCP {
        true => transport_there(packet),
        false => 0,
    };
    let words = header
        .get(TCP_LENGTH_OFFSET)
        .map(|&byte| usize::from(byte >> 4));
    let least = packet::TCP_HEADER_BYTES as usize;
    let bytes = words.map_or(least, |words| words * 4);
    let is_whole = (least..=there).contains(&bytes);
    if !packet.has_transport && packet.headers_beyond || is_whole && header.len() < bytes {
        fields.beyond |= bit(field);
        return;
    }
    let has = is_whole && has_option(header.get(..bytes).unwrap_or_default(), wanted);
    set(fields, field, has.into());
}

/// Reads the fields of the client's hello in TLS or QUIC.
fn read_tls(fields: &mut Fields, input: &DecideInput, names: &Names) {
    let is_tls = matches!(names.protocol, NamesProtocol::Tls | NamesProtocol::Quic);
    let has_name = is_tls && names.host_length > 0;
    set(fields, Field::TlsSniExists, has_name.into());
    set(fields, Field::TlsEch, (is_tls && names.ech).into());
    if !is_tls {
        return;
    }
    set(fields, Field::TlsAlpn, input.alpn_bits);
    if has_name {
        set(fields, Field::TlsSni, input.host_number);
    }
    if names.version != 0 {
        set(fields, Field::TlsVersion, names.version.into());
    }
}

fn read_http(fields: &mut Fields, input: &DecideInput, names: &Names) {
    let is_http = names.protocol == NamesProtocol::Http;
    let has_name = is_http && names.host_length > 0;
    set(fields, Field::HttpHostExists, has_name.into());
    if has_name {
        set(fields, Field::HttpHost, input.host_number);
    }
    if is_http && names.method_length > 0 {
        let method = names.method.get(..names.method_length.into());
        let method = short(method.unwrap_or_default());
        set_wide(fields, Field::HttpMethod, method);
    }
}

fn read_dns(fields: &mut Fields, input: &DecideInput, names: &Names) {
    let is_dns = names.protocol == NamesProtocol::Dns;
    let has_name = is_dns && names.host_length > 0;
    set(fields, Field::DnsNameExists, has_name.into());
    if has_name {
        set(fields, Field::DnsName, input.host_number);
    }
    if is_dns {
        set(fields, Field::DnsType, names.dns_type.into());
    }
}

/// Returns true if a packet may belong to a DNS query, or to the TCP connection of a DNS query. An answer over UDP does
/// not count, because it proves nothing about the query.
fn may_be_dns(packet: &Packet) -> bool {
    !packet.has_ports
        || packet.destination_port == DNS_PORT
        || packet.source_port == DNS_PORT && packet.protocol == TCP
}

/// Marks the names as unknown. If the packet can't belong to a DNS query, it is known to have no DNS name.
fn note_unknown(fields: &mut Fields, packet: &Packet) {
    fields.unknown = FIELDS_OF_NAMES;
    if !may_be_dns(packet) {
        fields.unknown &= !DNS_FIELDS;
        set(fields, Field::DnsNameExists, 0);
    }
}

/// Reads the names that the client has sent.
fn read_names(fields: &mut Fields, input: &DecideInput) {
    let Some(names) = input.names else {
        return;
    };
    match names.state {
        NamesState::None => {}
        NamesState::Undecided | NamesState::Unreadable => note_unknown(fields, input.packet),
        NamesState::Known => {
            read_tls(fields, input, names);
            read_http(fields, input, names);
            read_dns(fields, input, names);
        }
    }
}

/// Reads the fields except for interface names. A field is absent if the packet does not have it, or ends before the
/// field's end.
/// - wanted: bits of the fields to read; others may stay absent.
/// - nfproto: IPV4 or IPV6.
#[inline(always)]
pub fn read(fields: &mut Fields, wanted: u64, nfproto: u8, input: &DecideInput) {
    read_metadata(fields, nfproto, input);
    if wanted & FIELDS_OF_IPV4 != 0 && nfproto == IPV4 {
        read_ipv4(fields, input.packet);
    }
    if wanted & FIELDS_OF_IPV6 != 0 && nfproto == IPV6 {
        read_ipv6(fields, input.packet);
    }
    if wanted & FIELDS_OF_EXTENSION != 0 && nfproto == IPV6 {
        read_extensions(fields, input.packet);
    }
    if wanted & TRANSPORT_FIELDS != 0 {
        read_transport(fields, nfproto, input.packet);
    }
    if wanted & FIELDS_OF_TCP_OPTION != 0 {
        read_option(fields, Field::TcpOptionMptcp, input.packet, OPTION_MPTCP);
    }
    fields.beyond &= wanted;
    if wanted & FIELDS_OF_NAMES != 0 {
        read_names(fields, input);
        fields.unknown &= wanted;
    }
}

/// Returns the value of a field that is present.
pub fn value(fields: &Fields, field: Field) -> u128 {
    match wide_slot(field) {
        Some(slot) => wide(fields, slot),
        None => narrow(fields, field).into(),
    }
}

/// Stores the values of a key's fields in words, in the form of a `LookupHash` key: two words for a wide field, upper
/// half first. Returns the number of words, or None if a field is not present.
pub fn words(fields: &Fields, key: &[Field], words: &mut [u64; KEY_WORDS_MAX]) -> Option<usize> {
    let mut count = 0;
    for &field in key {
        if !is_present(fields, field) {
            return None;
        }
        let value = value(fields, field);
        if wide_slot(field).is_some() {
            *words.get_mut(count)? = (value >> 64) as u64;
            count += 1;
        }
        *words.get_mut(count)? = value as u64;
        count += 1;
    }
    Some(count)
}
