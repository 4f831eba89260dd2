// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml.
//! Syntax of the fields.

use crate::spec::refused::Where;

/// Group of fields that begin with the same word or words, as `tcp dport` begins with `tcp`; the
/// place of the next word; and the expected next words, as an error lists them.
pub struct Group {
    pub word: &'static str,
    pub at: Where,
    pub expected: &'static str,
}

#[rustfmt::skip]
pub static GROUPS: [Group; 14] = [
    Group { word: "ip", at: Where::Ip, expected: "saddr, daddr, protocol, ttl, dscp, length or frag-off" },
    Group { word: "ip6", at: Where::Ip6, expected: "saddr, daddr, nexthdr or hoplimit" },
    Group { word: "tcp", at: Where::Tcp, expected: "sport, dport or flags" },
    Group { word: "tcp option", at: Where::TcpOption, expected: "mptcp" },
    Group { word: "udp", at: Where::Udp, expected: "sport or dport" },
    Group { word: "th", at: Where::Udp, expected: "sport or dport" },
    Group { word: "icmp", at: Where::Icmp, expected: "type or code" },
    Group { word: "icmpv6", at: Where::Icmpv6, expected: "type or code" },
    Group { word: "exthdr", at: Where::Exthdr, expected: "hbh, rt, frag, dst or mh" },
    Group { word: "tls", at: Where::Names, expected: "sni, alpn, version or ech" },
    Group { word: "http", at: Where::Names, expected: "host or method" },
    Group { word: "dns", at: Where::Names, expected: "name or type" },
    Group { word: "ct", at: Where::Ct, expected: "state or mark" },
    Group { word: "meta", at: Where::Meta, expected: "l4proto, nfproto, mark, length, iif, oif, iifname, oifname, skuid or skgid" },
];

/// The group meta; some of its fields (`ALONE`) may be written without it.
pub static META: &Group = &GROUPS[13];

/// Fields of the group meta that may be written without the word meta: `mark` means `meta mark`.
pub const ALONE: [&str; 7] = ["mark", "iif", "oif", "iifname", "oifname", "skuid", "skgid"];
