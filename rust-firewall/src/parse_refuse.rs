// SPDX-License-Identifier: GPL-2.0-or-later
//! Words of nft that are not in the language, with what to do instead. rules/policy/GRAMMAR.md,
//! "What is refused, and why".

use crate::lexer::Lexer;
use crate::log::Failure;
use crate::token::{Sign, Token, TokenKind};

/// Where a word is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    File,
    Add,
    Family,
    Table,
    Statement,
    ChainType,
    Hook,
    Set,
    SetFlag,
    SetType,
    Element,
    Ip,
    Ip6,
    Tcp,
    Udp,
    Icmp,
    Icmpv6,
    Exthdr,
    Meta,
    Ct,
    Named,
    Log,
    Assigned,
}

const WHOLE: &str = "a policy is loaded whole";
const NAMED: &str = "write counters, quotas and limits in the rule";
const FIXED: &str = "sets do not change while packets run";
const NAT: &str = "leave it to the kernel";
const QUEUE: &str = "it is the kernel's own; the packet is already in a queue";
const UNSEEN: &str = "it does not come through a queue";
const FAMILIES: &str = "only IPv4 and IPv6 come through a queue";
const RANDOM: &str = "a policy has no random numbers and hashes";
const PORTS: &str = "test meta l4proto, and the ports with th sport, th dport";
const PROTOCOL: &str = "test meta l4proto";

/// The words of each place, between blanks, and the hint.
#[rustfmt::skip]
const HINTS: &[(Where, &str, &str)] = &[
    (Where::File, "delete insert replace reset rename destroy list create update get export import monitor describe", WHOLE),
    (Where::File, "chain rule set map element", "write it in the braces of its table, or with add before it"),
    (Where::File, "redefine undefine", "a name is defined once, to the end of the text"),
    (Where::Add, "counter quota limit ct synproxy secmark", NAMED),
    (Where::Add, "flowtable", NAT),
    (Where::Family, "bridge arp netdev", FAMILIES),
    (Where::Table, "counter quota limit ct synproxy secmark", NAMED),
    (Where::Table, "flowtable", NAT),
    (Where::Table, "flags", "a table is there or not"),
    (Where::Table, "redefine undefine", "a name is defined once, to the end of the text"),
    (Where::Statement, "dnat snat masquerade redirect nat", NAT),
    (Where::Statement, "queue dup fwd tproxy synproxy notrack flow secmark", QUEUE),
    (Where::Statement, "add update delete meter set map", FIXED),
    (Where::Statement, "redefine undefine", "a name is defined once, to the end of the text"),
    (Where::Statement, "ether vlan arp ibrname obrname ibriport obriport", "a packet comes through a queue from its IP header on"),
    (Where::Statement, "rt fib socket osf ipsec xt cgroup pkttype cpu iifgroup oifgroup iiftype oiftype nftrace rtclassid time day hour", UNSEEN),
    (Where::Statement, "numgen jhash symhash random", RANDOM),
    (Where::Statement, "sctp dccp udplite", PORTS),
    (Where::Statement, "ah esp comp igmp gre", PROTOCOL),
    (Where::Statement, "hbh frag dst mh rt0 rt2 srh", "write exthdr, the header's name, and exists or missing"),
    (Where::ChainType, "nat", NAT),
    (Where::ChainType, "route", QUEUE),
    (Where::Hook, "ingress egress", FAMILIES),
    (Where::Set, "timeout gc-interval size policy counter limit quota", FIXED),
    (Where::SetFlag, "dynamic timeout", FIXED),
    (Where::SetType, "tcp_flag ct_state dscp icmp_code icmpv6_code nf_proto integer boolean", "write typeof and the field"),
    (Where::SetType, "ether_addr ether_type arp_op ct_dir ct_status ct_label realm classid devgroup pkt_type time day hour cgroupsv2 string verdict", "a set holds what a match can test"),
    (Where::Element, "timeout expires counter limit quota", FIXED),
    (Where::Element, "comment", "write it behind a #"),
    (Where::Ip, "version hdrlength ecn id checksum option", "of ip, saddr, daddr, protocol, ttl, dscp, length and frag-off are"),
    (Where::Ip6, "version priority dscp ecn flowlabel length", "of ip6, saddr, daddr, nexthdr and hoplimit are"),
    (Where::Tcp, "sequence ackseq doff reserved window checksum urgptr option", "of tcp, sport, dport and flags are"),
    (Where::Udp, "length checksum", "of udp, sport and dport are"),
    (Where::Icmp, "checksum id sequence gateway mtu", "of icmp, type and code are"),
    (Where::Icmpv6, "checksum id sequence mtu max-delay parameter-problem packet-too-big", "of icmpv6, type and code are"),
    (Where::Exthdr, "rt0 rt2 srh", "of exthdr, hbh, rt, frag, dst and mh are"),
    (Where::Meta, "protocol", "write meta nfproto"),
    (Where::Meta, "priority pkttype cpu iifgroup oifgroup iiftype oiftype nftrace rtclassid cgroup ibrname obrname ibriport obriport time day hour ipsec secpath secmark sdif sdifname iifkind oifkind broute", UNSEEN),
    (Where::Meta, "random", RANDOM),
    (Where::Ct, "status direction expiration helper label l3proto protocol original reply saddr daddr proto-src proto-dst zone event bytes packets avgpkt count id ip ip6 secmark expectation timeout", "of ct, state and mark are"),
    (Where::Named, "name", NAMED),
    (Where::Log, "group snaplen queue-threshold flags", "log is counted: of log, prefix and level are"),
    (Where::Assigned, "set", "only meta mark can be set"),
];

/// The hint for a word that is met somewhere, if nft knows it there and the language does not.
fn hint(at: Where, word: &str) -> Option<&'static str> {
    HINTS
        .iter()
        .find(|(place, words, _)| *place == at && words.split(' ').any(|known| known == word))
        .map(|(_, _, hint)| *hint)
}

/// The hint for a token that is met somewhere.
fn find_hint(lexer: &Lexer, at: Where, token: &Token) -> Option<&'static str> {
    match token.kind {
        TokenKind::Word => hint(at, lexer.text(token)),
        TokenKind::Sign(Sign::At) if at == Where::Statement => Some("write the field by its name"),
        TokenKind::Other if at == Where::Element && lexer.text(token) == "*" => {
            Some("write a rule behind this one for the rest")
        }
        _ => None,
    }
}

/// Fails with the hint for a token, if there is one.
pub fn check(lexer: &Lexer, at: Where, token: &Token) -> Result<(), Failure> {
    match find_hint(lexer, at, token) {
        Some(hint) => Err(lexer.refuse(token, hint)),
        None => Ok(()),
    }
}

/// Fails with the hint for a token, or with what was expected if there is none.
pub fn unexpected(lexer: &Lexer, at: Where, token: &Token, expected: &str) -> Failure {
    match find_hint(lexer, at, token) {
        Some(hint) => lexer.refuse(token, hint),
        None => lexer.unexpected(token, expected),
    }
}
