// SPDX-License-Identifier: GPL-2.0-or-later
//! Conditions on a packet that are checked before a rule's first statement: the rule's reject can answer the packet,
//! and the packet is IPv6 if the rule reads extension headers. nft checks these conditions at the same point
//! (stmt_reject_gen_dependency, exthdr_gen_dependency), unless the table or a match implies them.

use crate::engine::fields::{IPV4, IPV6};
use crate::policy::{
    self, field_facts, Family, Field, Key, Layer3, MarkSet, Match, Op, Part, RejectKind, Right,
    Rule, Statement, StatementKind,
};

const TCP: u8 = libc::IPPROTO_TCP as u8;

pub const NEEDS_TCP: u32 = 1;
pub const NEEDS_IPV4: u32 = 2;
pub const NEEDS_IPV6: u32 = 4;
/// Flag that is stored with the conditions: the rule reads names.
pub const READS_NAMES: u32 = 8;
/// Returned by `names_at` for a rule that reads no name.
pub const NO_NAMES: u32 = u32::MAX;

/// Protocols that the table and a rule's matches and maps require of a packet.
struct Said {
    ipv4: bool,
    ipv6: bool,
    tcp: bool,
}

/// Returns true if a match holds only for this value of its field.
fn is_only(found: &Match, value: u128) -> bool {
    let ranges = match &found.right {
        Right::Named { .. } => return false,
        Right::Range(range) => std::slice::from_ref(range),
        Right::Literal(elements) => &elements.ranges,
    };
    found.op == Op::Eq
        && found.mask.is_none()
        && ranges
            .iter()
            .all(|range| range.low == value && range.high == value)
}

fn hear_key(said: &mut Said, key: &Key) {
    for &field in &key.fields {
        let facts = policy::field_facts(field);
        said.ipv4 |= facts.layer3 == Layer3::NeedsIpv4;
        said.ipv6 |= facts.layer3 == Layer3::NeedsIpv6;
        said.tcp |= facts.protocol == TCP;
    }
}

fn hear_match(said: &mut Said, found: &Match) {
    hear_key(said, &found.key);
    let [field] = found.key.fields[..] else {
        return;
    };
    if matches!(
        field,
        Field::MetaL4proto | Field::IpProtocol | Field::Ip6Nexthdr
    ) {
        said.tcp |= is_only(found, u128::from(TCP));
    }
    if field == Field::MetaNfproto {
        said.ipv4 |= is_only(found, u128::from(IPV4));
        said.ipv6 |= is_only(found, u128::from(IPV6));
    }
}

fn hear(said: &mut Said, statement: &Statement) {
    match &statement.kind {
        StatementKind::Match(found) => hear_match(said, found),
        StatementKind::Vmap(map) => hear_key(said, &map.key),
        StatementKind::MarkSet(set) => {
            if let MarkSet::Map(map) = &**set {
                hear_key(said, &map.key);
            }
        }
        _ => (),
    }
}

fn is_extension(statement: &Statement) -> bool {
    let StatementKind::Match(found) = &statement.kind else {
        return false;
    };
    field_facts(found.key.fields[0]).part == Part::Extension
}

/// Returns the key of a match or map; None for other statements.
fn key_of(statement: &Statement) -> Option<&Key> {
    match &statement.kind {
        StatementKind::Match(found) | StatementKind::Vmap(found) => Some(&found.key),
        StatementKind::MarkSet(set) => match &**set {
            MarkSet::Map(map) => Some(&map.key),
            MarkSet::Bits { .. } => None,
        },
        _ => None,
    }
}

fn reads_names(statement: &Statement) -> bool {
    let fields = key_of(statement).map_or(&[][..], |key| &key.fields);
    fields
        .iter()
        .any(|&field| field_facts(field).part == Part::Names)
}

/// Returns the condition of a reject's type, unless the table or an earlier match or map implies it; then 0.
fn reject_needs(kind: RejectKind, said: &Said) -> u32 {
    match kind {
        RejectKind::TcpReset if !said.tcp => NEEDS_TCP,
        RejectKind::Icmp if !said.ipv4 => NEEDS_IPV4,
        RejectKind::Icmpv6 if !said.ipv6 => NEEDS_IPV6,
        _ => 0,
    }
}

/// Returns the index of a rule's first statement that reads a name; NO_NAMES if none does.
pub fn names_at(rule: &Rule) -> u32 {
    let at = rule.statements.iter().position(reads_names);
    at.map_or(NO_NAMES, |at| at as u32)
}

/// Returns a rule's conditions on a packet, and the flag that the rule reads names, as a bitwise OR of NEEDS_* and
/// READS_NAMES.
pub fn needs(family: Family, rule: &Rule) -> u32 {
    let mut said = Said {
        ipv4: family == Family::Ip,
        ipv6: family == Family::Ip6,
        tcp: false,
    };
    let mut needs = 0;
    for statement in &rule.statements {
        if is_extension(statement) && !said.ipv6 {
            needs |= NEEDS_IPV6;
        }
        if reads_names(statement) {
            needs |= READS_NAMES;
        }
        if let StatementKind::Reject(reject) = &statement.kind {
            needs |= reject_needs(reject.kind, &said);
        }
        hear(&mut said, statement);
    }
    needs
}
