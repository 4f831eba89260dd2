// SPDX-License-Identifier: GPL-2.0-or-later
//! What a packet must be for a rule to reject it with an answer. nft asks for that before the first
//! statement (stmt_reject_gen_dependency), unless the table or a match of the rule says it anyway.

use crate::fields::{IPV4, IPV6};
use crate::policy::{
    self, Family, Field, Key, Layer3, MarkSet, Match, Op, RejectKind, Right, Rule, Statement,
    StatementKind,
};

const TCP: u8 = libc::IPPROTO_TCP as u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerNeeds {
    Nothing,
    Tcp,
    Ipv4,
    Ipv6,
}

/// What is said of the packets that come to the end of a rule.
struct Said {
    ipv4: bool,
    ipv6: bool,
    tcp: bool,
}

/// Whether a match lets one value of its field through and no other.
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

/// What a rule of a table asks of a packet before all else.
pub fn needs(family: Family, rule: &Rule) -> AnswerNeeds {
    let Some(StatementKind::Reject(reject)) = rule.statements.last().map(|last| &last.kind) else {
        return AnswerNeeds::Nothing;
    };
    let mut said = Said {
        ipv4: family == Family::Ip,
        ipv6: family == Family::Ip6,
        tcp: false,
    };
    for statement in &rule.statements {
        hear(&mut said, statement);
    }
    match reject.kind {
        RejectKind::TcpReset if !said.tcp => AnswerNeeds::Tcp,
        RejectKind::Icmp if !said.ipv4 => AnswerNeeds::Ipv4,
        RejectKind::Icmpv6 if !said.ipv6 => AnswerNeeds::Ipv6,
        _ => AnswerNeeds::Nothing,
    }
}
