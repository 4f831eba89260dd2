// SPDX-License-Identifier: GPL-2.0-or-later
//! Single values of every type except host names: conversion from text to number and back. rules/policy/GRAMMAR.md,
//! "Values", specifies their syntax.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::base::object;
use crate::policy::symbol::{
    find, name_of, symbols_of, symbols_of_reject, symbols_printed, Symbol, LEVELS, UNITS,
};
use crate::policy::token::TokenKind;
use crate::policy::{Range, RejectKind, Type, NAMEABLE_TYPES, TYPES};

/// Maximum size of an interface name with its final NUL (IFNAMSIZ).
pub const INTERFACE_BYTES: usize = 16;

/// Maximum length of the name of an ALPN protocol or an HTTP method, in bytes.
pub const SHORT_BYTES: usize = 16;

/// Largest ICMP code that nf_tables' reject accepts.
const REJECT_CODE_MAX: u64 = 254;

/// Returns true if a policy may write any number with the bits of a type as a value of this type. Returns false for
/// nf_proto, because only the numbers 2 and 10 are its values.
fn takes_numbers(kind: Type) -> bool {
    !matches!(
        kind,
        Type::Ipv6Addr
            | Type::Ifname
            | Type::IfaceIndex
            | Type::NfProto
            | Type::Boolean
            | Type::Hostname
            | Type::Alpn
            | Type::TlsVersion
            | Type::HttpMethod
    )
}

/// Returns the error text for a token that is no value of this type.
fn cause_of(kind: Type) -> &'static str {
    match kind {
        Type::Ipv4Addr => "not an IPv4 address",
        Type::Ipv6Addr => "not an IPv6 address",
        Type::InetProto => "not a protocol that is known here: write its number",
        Type::InetService => "not a service that is known here: write its port",
        Type::TcpFlag => "not one of fin syn rst psh ack urg ecn cwr, nor a number",
        Type::IcmpType => "not an ICMP type such as echo-request, nor a number",
        Type::IcmpCode => "not an ICMP code such as port-unreachable, nor a number",
        Type::Icmpv6Type => "not an ICMPv6 type such as echo-request, nor a number",
        Type::Icmpv6Code => "not an ICMPv6 code such as port-unreachable, nor a number",
        Type::Dscp => "not one of cs0 to cs7, af11 to af43, ef, nor a number",
        Type::Mark | Type::Integer => "not a number",
        Type::Ifname | Type::IfaceIndex => "not the name of an interface",
        Type::Uid => "not a number: `id -u NAME` prints that of a user",
        Type::Gid => "not a number: `getent group NAME` prints that of a group",
        Type::CtState => "not one of invalid established related new untracked, nor a number",
        Type::NfProto => "not one of ipv4 ipv6, 2 and 10",
        Type::Boolean => "not one of exists missing",
        Type::Hostname => "not the name of a host: write it in quotes",
        Type::Alpn => "not a protocol such as h2: write it in quotes",
        Type::TlsVersion => "not one of 1.0 1.1 1.2 1.3",
        Type::HttpMethod => "not a method such as GET: write it in quotes",
        Type::DnsType => "not a type of DNS such as aaaa that is known here: write its number",
    }
}

/// Returns the error text for a number that has more than this many bits.
fn cause_of_size(bits: u8) -> &'static str {
    match bits {
        6 => "larger than 63",
        8 => "larger than 255",
        16 => "larger than 65535",
        _ => "larger than 4294967295",
    }
}

fn single(value: u128) -> Range {
    Range {
        low: value,
        high: value,
    }
}

fn parse_address(kind: Type, text: &str) -> Result<Range, &'static str> {
    let value = if kind == Type::Ipv4Addr {
        text.parse::<Ipv4Addr>()
            .map(|address| u32::from(address).into())
    } else {
        text.parse::<Ipv6Addr>().map(u128::from)
    };
    value.map(single).map_err(|_| cause_of(kind))
}

fn interface_filled(name: &str, rest: u8) -> u128 {
    let mut bytes = [rest; INTERFACE_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    u128::from_be_bytes(bytes)
}

fn parse_interface(kind: Type, text: &str) -> Result<Range, &'static str> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let open = name.len() < text.len();
    if name.contains('*') {
        return Err("a `*` is allowed only at the end");
    }
    if open && kind == Type::IfaceIndex {
        return Err("no `*` here: iifname and oifname take one");
    }
    if name.contains('\\') {
        return Err("no interface is named with a backslash");
    }
    if name.is_empty() {
        return Err("an interface has a name");
    }
    if name.len() >= INTERFACE_BYTES {
        return Err("longer than the 15 bytes of an interface's name");
    }
    Ok(Range {
        low: interface_filled(name, 0),
        high: interface_filled(name, if open { 0xff } else { 0 }),
    })
}

/// Parses the name of an ALPN protocol or an HTTP method. Its value is its bytes, NUL-padded, as a big-endian number.
fn parse_short(kind: Type, text: &str) -> Result<Range, &'static str> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() {
        return Err("empty");
    }
    if text.len() > SHORT_BYTES {
        return Err("longer than 16 bytes");
    }
    if kind == Type::HttpMethod && !text.bytes().all(is_of_token) {
        return Err("not a method of HTTP (RFC 9110, section 9.1)");
    }
    Ok(single(short(text.as_bytes())))
}

/// Returns the value of the name of an ALPN protocol or an HTTP method: its bytes, NUL-padded, as a big-endian number.
/// The name has at most SHORT_BYTES bytes.
pub fn short(name: &[u8]) -> u128 {
    let mut bytes = [0; SHORT_BYTES];
    for (to, byte) in bytes.iter_mut().zip(name) {
        *to = *byte;
    }
    u128::from_be_bytes(bytes)
}

fn parse_number(bits: u8, number: u64) -> Result<Range, &'static str> {
    if u128::from(number) > max(bits) {
        return Err(cause_of_size(bits));
    }
    Ok(single(number.into()))
}

fn parse_symbol(kind: Type, text: &str) -> Result<Range, &'static str> {
    let number = find(symbols_of(kind), text).ok_or(cause_of(kind))?;
    Ok(single(number.into()))
}

/// Parses one token as a value: low and high are equal, except for an interface name with a `*` at its end. Fails with
/// the cause, for the message of `Lexer::wrong`.
/// - bits: number of bits of the field or type; larger numbers are refused.
pub fn parse(kind: Type, bits: u8, token: TokenKind, text: &str) -> Result<Range, &'static str> {
    match (kind, token) {
        (Type::Ipv4Addr, TokenKind::Ipv4 | TokenKind::String)
        | (Type::Ipv6Addr, TokenKind::Ipv6 | TokenKind::String) => parse_address(kind, text),
        (Type::Ipv4Addr, TokenKind::Word) => Err("not an IPv4 address: names are not looked up"),
        (Type::Ipv6Addr, TokenKind::Word) => Err("not an IPv6 address: names are not looked up"),
        (
            Type::Ifname | Type::IfaceIndex,
            TokenKind::Word | TokenKind::Wildcard | TokenKind::String,
        ) => parse_interface(kind, text),
        (Type::Alpn | Type::HttpMethod, TokenKind::String) => parse_short(kind, text),
        (Type::TlsVersion, TokenKind::Ipv4) => parse_symbol(kind, text),
        (_, TokenKind::Number(number)) if takes_numbers(kind) => parse_number(bits, number),
        (Type::NfProto, TokenKind::Number(number))
            if name_of(symbols_of(kind), number.into()).is_some() =>
        {
            Ok(single(number.into()))
        }
        (_, TokenKind::Word | TokenKind::String) => parse_symbol(kind, text),
        _ => Err(cause_of(kind)),
    }
}

/// Returns the range of addresses of a prefix. Ignores bits of the address after the prefix's length. Fails with the
/// error text if the length is too large.
/// - kind: Ipv4Addr or Ipv6Addr.
pub fn prefix(kind: Type, address: u128, length: u64) -> Result<Range, &'static str> {
    let bits = self::bits(kind);
    if length > bits.into() {
        return Err(if kind == Type::Ipv4Addr {
            "a prefix of IPv4 has 0 to 32 bits"
        } else {
            "a prefix of IPv6 has 0 to 128 bits"
        });
    }
    let host = max(bits - length as u8);
    Ok(Range {
        low: address & !host,
        high: address | host,
    })
}

/// Returns true if a token can begin a value: a word, number, address, string or wildcard.
pub fn begins(token: TokenKind) -> bool {
    matches!(
        token,
        TokenKind::Word
            | TokenKind::Wildcard
            | TokenKind::Number(_)
            | TokenKind::Ipv4
            | TokenKind::Ipv6
            | TokenKind::String
    )
}

/// Returns the number of bits of a type's values; 32 for Integer.
pub fn bits(kind: Type) -> u8 {
    match kind {
        Type::Ipv6Addr | Type::Ifname | Type::HttpMethod => 128,
        Type::InetService | Type::TlsVersion | Type::DnsType => 16,
        Type::InetProto
        | Type::TcpFlag
        | Type::IcmpType
        | Type::IcmpCode
        | Type::Icmpv6Type
        | Type::Icmpv6Code
        | Type::NfProto => 8,
        Type::Dscp => 6,
        Type::Boolean => 1,
        Type::Ipv4Addr
        | Type::Mark
        | Type::IfaceIndex
        | Type::Uid
        | Type::Gid
        | Type::CtState
        | Type::Integer
        | Type::Hostname
        | Type::Alpn => 32,
    }
}

/// Returns the largest number with this many bits.
pub fn max(bits: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(bits)).unwrap_or(0)
}

/// Returns true if a value of the type is a set of bits (tcp_flag, ct_state).
pub fn is_flags(kind: Type) -> bool {
    matches!(kind, Type::TcpFlag | Type::CtState)
}

/// Returns a type by its name in sets, e.g. ipv4_addr; None if sets can't have a type of this name.
pub fn find_type(token: TokenKind, text: &str) -> Option<Type> {
    let found = TYPES.iter().find(|(_, name)| *name == text)?.0;
    let nameable = NAMEABLE_TYPES >> found as u32 & 1 != 0;
    (nameable && token == TokenKind::Word).then_some(found)
}

/// Parses the code of `reject with icmp|icmpv6|icmpx`, a name or number (icmpx: one of ICMPX_*). kind is not TcpReset.
/// Fails with the error text.
pub fn parse_reject(kind: RejectKind, token: TokenKind, text: &str) -> Result<u8, &'static str> {
    let symbols = symbols_of_reject(kind);
    let found = match token {
        TokenKind::Word => find(symbols, text).map(|code| code as u8),
        TokenKind::Number(number) if kind == RejectKind::Icmpx => {
            name_of(symbols, number.into()).map(|_| number as u8)
        }
        TokenKind::Number(number) if number <= REJECT_CODE_MAX => Some(number as u8),
        _ => None,
    };
    found.ok_or(match kind {
        RejectKind::TcpReset => "",
        RejectKind::Icmp => {
            "not one of net-unreachable host-unreachable prot-unreachable port-unreachable \
             net-prohibited host-prohibited admin-prohibited, nor a number up to 254"
        }
        RejectKind::Icmpv6 => {
            "not one of no-route admin-prohibited addr-unreachable port-unreachable policy-fail \
             reject-route, nor a number up to 254"
        }
        RejectKind::Icmpx => {
            "not one of port-unreachable admin-prohibited no-route host-unreachable, nor their number"
        }
    })
}

/// Returns the name of a reject's code.
pub fn reject_name(kind: RejectKind, code: u8) -> Option<&'static str> {
    name_of(symbols_of_reject(kind), code.into())
}

/// Returns the number of a log level by its name; None for other tokens. level_name does the reverse.
pub fn find_level(token: TokenKind, text: &str) -> Option<u8> {
    let found = match token {
        TokenKind::Word => find(LEVELS, text),
        _ => None,
    };
    found.map(|level| level as u8)
}

pub fn level_name(level: u8) -> &'static str {
    name_of(LEVELS, level.into()).unwrap_or("warn")
}

/// Returns the length in seconds of a unit of time (second, minute, hour, day or week) by its name; None for other
/// texts. unit_name does the reverse.
pub fn find_unit(text: &str) -> Option<u64> {
    find(UNITS, text).map(u64::from)
}

pub fn unit_name(seconds: u64) -> &'static str {
    name_of(UNITS, seconds.into()).unwrap_or("second")
}

/// Prints the names of the bits of a value, and all bits without a name as one hexadecimal number.
fn print_flags(out: &mut String, symbols: &[Symbol], value: u128, joined: &str) {
    let mut rest = value;
    let mut between = "";
    for (name, bit) in symbols {
        if value & u128::from(*bit) != 0 {
            put(out, format_args!("{between}{name}"));
            between = joined;
            rest &= !u128::from(*bit);
        }
    }
    if rest != 0 {
        put(out, format_args!("{between}0x{rest:x}"));
    }
}

fn put(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a String takes all");
}

/// Prints an address by RFC 5952, without the mixed notation: the first of the longest runs of two or more zero groups
/// becomes `::`.
fn print_ipv6(out: &mut String, address: u128) {
    let group = |index: usize| (address >> (112 - 16 * index)) as u16;
    let mut best = (0, 1);
    let mut index = 0;
    while index < 8 {
        let zeros = (index..8).take_while(|index| group(*index) == 0).count();
        if zeros > best.1 {
            best = (index, zeros);
        }
        index += zeros.max(1);
    }
    let mut index = 0;
    while index < 8 {
        if best.1 > 1 && index == best.0 {
            out.push_str("::");
            index += best.1;
            continue;
        }
        if index > 0 && !out.ends_with(':') {
            out.push(':');
        }
        put(out, format_args!("{:x}", group(index)));
        index += 1;
    }
}

/// Prints a name (of an interface, an ALPN protocol or an HTTP method) of at most 16 bytes in quotes. In a name that is
/// not UTF-8, question marks replace all bytes that are not ASCII.
/// - rest: text after the name: "*" or "".
fn print_interface(out: &mut String, value: u128, rest: &str) {
    let bytes = value.to_be_bytes();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or(&bytes);
    let name = object::string_of(name);
    put(out, format_args!("\"{name}{rest}\""));
}

/// Prints a TLS version by its name, or as the hexadecimal number on the wire if it has no name.
fn print_version(out: &mut String, version: u128) {
    match name_of(symbols_of(Type::TlsVersion), version) {
        Some(name) => out.push_str(name),
        None => put(out, format_args!("0x{version:04x}")),
    }
}

/// Prints a value as a number, an address, a quoted text or a TLS version, not by its symbol.
fn print_number(out: &mut String, kind: Type, value: u128) {
    match kind {
        Type::Ipv4Addr => put(out, format_args!("{}", Ipv4Addr::from(value as u32))),
        Type::Ipv6Addr => print_ipv6(out, value),
        Type::Ifname | Type::IfaceIndex | Type::Alpn | Type::HttpMethod => {
            print_interface(out, value, "");
        }
        Type::TlsVersion => print_version(out, value),
        Type::Mark => put(out, format_args!("0x{value:08x}")),
        Type::Dscp => put(out, format_args!("0x{value:02x}")),
        Type::TcpFlag | Type::CtState => put(out, format_args!("0x{value:x}")),
        _ => put(out, format_args!("{value}")),
    }
}

/// Prints a value. Flags are in the type's order, joined by `flags` ("," or " | "), 0 as 0x0.
pub fn print(out: &mut String, kind: Type, value: u128, flags: &str) {
    if is_flags(kind) && value != 0 {
        print_flags(out, symbols_of(kind), value, flags);
    } else if let Some(name) = name_of(symbols_printed(kind), value) {
        out.push_str(name);
    } else {
        print_number(out, kind, value);
    }
}

/// Prints a range in its shortest form: a value (flags joined by ` | `), a prefix, `eth*`, or low-high. low and high
/// are printed as numbers, not by name (except TLS versions), because names joined by `-` could be read as one word.
pub fn print_range(out: &mut String, kind: Type, range: &Range) {
    let differing = range.low ^ range.high;
    let is_prefix = differing & differing.wrapping_add(1) == 0 && range.low & differing == 0;
    if range.low == range.high {
        print(out, kind, range.low, " | ");
    } else if kind == Type::Ifname {
        print_interface(out, range.low, "*");
    } else if is_prefix && matches!(kind, Type::Ipv4Addr | Type::Ipv6Addr) {
        print_number(out, kind, range.low);
        let host = 128 - differing.leading_zeros();
        put(out, format_args!("/{}", u32::from(bits(kind)) - host));
    } else {
        print_number(out, kind, range.low);
        out.push('-');
        print_number(out, kind, range.high);
    }
}

/// Prints a mask: a number in the type's form, an integer in hexadecimal without leading zeros, several flags in
/// parentheses.
pub fn print_mask(out: &mut String, kind: Type, mask: u128) {
    match kind {
        Type::Integer => put(out, format_args!("0x{mask:x}")),
        _ if is_flags(kind) && mask.count_ones() > 1 => {
            out.push('(');
            print(out, kind, mask, " | ");
            out.push(')');
        }
        _ => print(out, kind, mask, ","),
    }
}
