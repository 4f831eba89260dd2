// SPDX-License-Identifier: GPL-2.0-or-later
//! Descriptions of packets, rules and reasons in words, for `explain`, events and reports.

use crate::engine::interface;
use crate::engine::types::{CompilePlace, DecideStep, DecideWhy};
use crate::names::{self, Names};
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::print;
use crate::policy::value;
use crate::policy::{
    self, Field, Key, MarkSet, Policy, Reject, RejectKind, Rule, Statement, StatementKind, Type,
};
use crate::worker::reject;

/// Returns the rule at a position in the policy.
pub fn rule(policy: &Policy, place: CompilePlace) -> Option<&Rule> {
    let table = policy.tables.get(place.table as usize)?;
    let chain = table.chains.get(place.chain as usize)?;
    chain.rules.get(place.rule as usize)
}

/// Returns the statement at a position in the policy.
pub fn statement(policy: &Policy, place: CompilePlace) -> Option<&Statement> {
    let rule = rule(policy, place)?;
    rule.statements.get(place.statement as usize)
}

/// Returns the position of a rule: "FILE:LINE".
/// - place: position of the rule, or of one of its statements.
pub fn place(policy: &Policy, place: CompilePlace) -> String {
    let text = rule(policy, place).map(|rule| rule.place);
    let file = text.and_then(|text| policy.files.get(text.file as usize));
    match (file, text) {
        (Some(file), Some(text)) => format!("{file}:{}", text.line),
        _ => String::new(),
    }
}

/// Returns a rule's position, padded with blanks to a width.
pub fn place_padded(place: &str, width: usize) -> String {
    // The width counts bytes, whereas format! counts characters.
    format!("{place}{}", " ".repeat(width.saturating_sub(place.len())))
}

/// Returns the family and name of a chain's table and the chain's name: "inet filter input".
pub fn chain(policy: &Policy, place: CompilePlace) -> String {
    let table = policy.tables.get(place.table as usize);
    let chain = table.and_then(|table| table.chains.get(place.chain as usize));
    match (table, chain) {
        (Some(table), Some(chain)) => {
            let family = policy::family_name(table.family);
            format!("{family} {} {}", table.name, chain.name)
        }
        _ => String::new(),
    }
}

/// Returns a rule's text on one line.
pub fn rule_text(policy: &Policy, place: CompilePlace) -> String {
    let table = policy.tables.get(place.table as usize);
    match (table, rule(policy, place)) {
        (Some(table), Some(rule)) => print::rule(policy, table, rule),
        _ => String::new(),
    }
}

/// Returns an address of the packet, with its port if it has one.
fn address(bytes: &[u8], port: Option<u16>) -> String {
    let value = bytes
        .iter()
        .fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
    let is_ipv4 = bytes.len() == 4;
    let kind = if is_ipv4 {
        Type::Ipv4Addr
    } else {
        Type::Ipv6Addr
    };
    let text = print::value(kind, value);
    match port {
        Some(port) if is_ipv4 => format!("{text}:{port}"),
        Some(port) => format!("[{text}]:{port}"),
        None => text,
    }
}

/// Returns a packet's protocol with its TCP flags or ICMP type, and a note if the packet is a fragment.
fn protocol(packet: &Packet) -> String {
    let mut text = print::value(Type::InetProto, packet.protocol.into());
    if packet.has_tcp_flags && packet.tcp_flags != 0 {
        text.push(' ');
        text.push_str(&print::value(Type::TcpFlag, packet.tcp_flags.into()));
    }
    if packet.has_icmp {
        let kind = match packet.version {
            4 => Type::IcmpType,
            _ => Type::Icmpv6Type,
        };
        text.push(' ');
        text.push_str(&print::value(kind, packet.icmp_type.into()));
    }
    if packet.later_fragment {
        text.push_str(", a later fragment");
    } else if packet.fragment {
        text.push_str(", a first fragment");
    }
    text
}

/// Returns the description of a packet: "10.0.0.1:40000 > 10.0.0.2:22 tcp syn, 60 bytes".
pub fn packet(packet: &Packet, status: PacketStatus) -> String {
    let mut text = String::new();
    if let Some((source, destination)) = packet::addresses(packet) {
        let port = |port| packet.has_ports.then_some(port);
        text.push_str(&format!(
            "{} > {} {}, ",
            address(source, port(packet.source_port)),
            address(destination, port(packet.destination_port)),
            protocol(packet)
        ));
    }
    text.push_str(&format!("{} bytes", packet.original));
    if packet::is_malformed(status) {
        text.push_str(&format!(", malformed ({})", packet::status_name(status)));
    }
    if packet.bytes.len() < packet.original as usize {
        text.push_str(&format!(", {} captured", packet.bytes.len()));
    }
    text
}

/// Returns the key of a match, a map or a vmap; None for other statements.
pub fn key_of(statement: &Statement) -> Option<&Key> {
    match &statement.kind {
        StatementKind::Match(found) | StatementKind::Vmap(found) => Some(&found.key),
        StatementKind::MarkSet(set) => match &**set {
            MarkSet::Map(map) => Some(&map.key),
            MarkSet::Bits { .. } => None,
        },
        _ => None,
    }
}

/// Returns a name from a packet, in quotes, with `?` for quotes, backslashes and unprintable characters.
fn quoted(name: &[u8]) -> String {
    let shown = |byte: &u8| match byte {
        b'"' | b'\\' => '?',
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    };
    format!("\"{}\"", name.iter().map(shown).collect::<String>())
}

/// Returns the protocols that a client offers, in the syntax of a set, with `?` for quotes, backslashes and unprintable
/// characters.
fn protocols(names: &Names) -> String {
    let mut rest = names
        .alpn
        .get(..names.alpn_length.into())
        .unwrap_or_default();
    let mut offered = Vec::new();
    while let Some((length, behind)) = rest.split_first() {
        let name = behind.get(..usize::from(*length)).unwrap_or(behind);
        rest = behind.get(name.len()..).unwrap_or_default();
        offered.push(quoted(name));
    }
    format!("{{ {} }}", offered.join(", "))
}

/// Returns the value of a packet's field as text. The index of an interface must have been replaced by its name.
fn value(kind: Type, value: u128, names: &Names) -> String {
    match kind {
        Type::Hostname => quoted(names::host(names)),
        Type::Alpn => protocols(names),
        _ => print::value(kind, value),
    }
}

fn differs(
    statement: &Statement,
    step: &DecideStep,
    names: &Names,
    interface_name: &dyn Fn(u32) -> Vec<u8>,
) -> String {
    let fields = key_of(statement).map_or(&[] as &[Field], |key| &key.fields);
    let fields = fields.get(..step.values_count as usize).unwrap_or(fields);
    let texts: Vec<&str> = fields
        .iter()
        .map(|field| policy::field_facts(*field).text)
        .collect();
    let values = fields.iter().zip(step.values).map(|(field, number)| {
        let kind = policy::field_facts(*field).kind;
        let number = match kind {
            Type::IfaceIndex => interface::value(&interface_name(number as u32)),
            _ => number,
        };
        value(kind, number, names)
    });
    let values: Vec<String> = values.collect();
    format!("{} is {}", texts.join(" . "), values.join(" . "))
}

/// Returns the reason why the rule does not apply to a packet's protocol.
fn other_kind(rule: &Rule) -> &'static str {
    let Some(StatementKind::Reject(reject)) = rule.statements.last().map(|last| &last.kind) else {
        return "exthdr is for ipv6 only";
    };
    match reject.kind {
        RejectKind::TcpReset => "the reply is for tcp only",
        RejectKind::Icmp => "the reply is for ipv4 only",
        RejectKind::Icmpv6 => "the reply is for ipv6 only",
        RejectKind::Icmpx => "exthdr is for ipv6 only",
    }
}

/// Returns the field step.missing as a policy writes it; "" = none.
fn missing(step: &DecideStep) -> &'static str {
    let field = step.missing;
    field.map_or("", |field| policy::field_facts(field).text)
}

/// Returns the reason why a rule did not match: "ct state is new". step.why is not `Held`.
/// - names: names that the packet's client has shown.
/// - interface_name: returns the name of an index; empty = none.
pub fn why(
    policy: &Policy,
    step: &DecideStep,
    names: &Names,
    interface_name: &dyn Fn(u32) -> Vec<u8>,
) -> String {
    let Some(statement) = statement(policy, step.place) else {
        return String::new();
    };
    match step.why {
        DecideWhy::Held => String::new(),
        DecideWhy::Differs if step.values_count == 0 => {
            format!("no possible {} matches", missing(step))
        }
        DecideWhy::Differs => differs(statement, step, names, interface_name),
        DecideWhy::Missing => format!("{} is missing", missing(step)),
        DecideWhy::Beyond => format!("{} is beyond the copied bytes", missing(step)),
        DecideWhy::Unknown => format!("{} is not known", missing(step)),
        DecideWhy::Limit => match &statement.kind {
            StatementKind::Limit(limit) if limit.over => "limit not exceeded".to_owned(),
            _ => "limit exceeded".to_owned(),
        },
        DecideWhy::Quota => match &statement.kind {
            StatementKind::Quota(quota) if quota.over => "quota not used up".to_owned(),
            _ => "quota used up".to_owned(),
        },
        DecideWhy::NoAnswer => rule(policy, step.place).map_or("", other_kind).to_owned(),
    }
}

/// Returns the description of a reply: "icmp port-unreachable", "tcp reset".
/// - version: version of the packet's IP header, which selects icmp or icmpv6.
pub fn reply(reject: &Reject, version: u8) -> String {
    let (kind, text) = match (reject.kind, version) {
        (RejectKind::TcpReset, _) => return "tcp reset".to_owned(),
        (_, 4) => (RejectKind::Icmp, "icmp"),
        _ => (RejectKind::Icmpv6, "icmpv6"),
    };
    let code = reject::code(reject, version);
    match value::reject_name(kind, code) {
        Some(name) => format!("{text} {name}"),
        None => format!("{text} {code}"),
    }
}
