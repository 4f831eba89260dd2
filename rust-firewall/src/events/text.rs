// SPDX-License-Identifier: GPL-2.0-or-later
//! Events as lines of JSON, in the shape of Suricata's EVE: docs/EVENTS.md. All lines end in a line
//! end.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use chrono::DateTime;
use serde::{Serialize, Serializer};

use crate::base::object;
use crate::engine::compile;
use crate::engine::compiled::Compiled;
use crate::engine::types::{CompilePlace, DecideBy};
use crate::events::headers::{self, Layers, Tuple};
use crate::events::types::{EventsFacts, EventsKind};
use crate::explain::describe;
use crate::options::{PROGRAM, VERSION};
use crate::packet::verdict::{self, Verdict};
use crate::packet::{self, Packet};
use crate::policy::print;
use crate::policy::value;
use crate::policy::{self, Policy, StatementKind, Type, HOOKS};
use crate::spec;
use crate::worker::event::{self, Event};

const LINKTYPE_RAW: u32 = 101;

/// A record, and what its numbers stand for.
#[derive(Clone, Copy)]
pub struct EventText<'a> {
    pub event: &'a Event,
    /// The policy of the record's generation; none if there is none, or it is no longer known.
    pub policy: Option<(&'a Policy, &'a Compiled)>,
    /// Empty = none.
    pub iifname: &'a [u8],
    /// Empty = none.
    pub oifname: &'a [u8],
}

fn timestamp(time_ns: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(time_ns).unwrap_or(i64::MAX));
    time.format("%Y-%m-%dT%H:%M:%S%.6f+0000").to_string()
}

/// Where a rule stands.
#[derive(Default, Serialize)]
struct RulePlace {
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    statement: Option<u32>,
}

fn rule_place(policy: &Policy, place: CompilePlace) -> RulePlace {
    RulePlace {
        rule: Some(describe::place(policy, place)),
        comment: describe::rule(policy, place).and_then(|rule| rule.comment.clone()),
        ..chain_place(policy, place)
    }
}

fn chain_place(policy: &Policy, place: CompilePlace) -> RulePlace {
    let table = policy.tables.get(place.table as usize);
    let chain = table.and_then(|table| table.chains.get(place.chain as usize));
    RulePlace {
        table: table.map(|table| format!("{} {}", policy::family_name(table.family), table.name)),
        chain: chain.map(|chain| chain.name.clone()),
        ..RulePlace::default()
    }
}

/// What gave the verdict.
fn by(text: &EventText) -> (&'static str, RulePlace) {
    let outcome = &text.event.outcome;
    let name = match outcome.by {
        DecideBy::Rule => "rule",
        DecideBy::Policy => "policy",
        DecideBy::Default => "default",
        DecideBy::Fail => "fail",
        DecideBy::Undecided => "undecided",
        DecideBy::Connection => "connection",
    };
    let place = match (outcome.by, text.policy) {
        (DecideBy::Rule, Some((policy, compiled))) => {
            rule_place(policy, compile::rule_at(compiled, outcome.rule))
        }
        (DecideBy::Policy, Some((policy, compiled))) => {
            chain_place(policy, compile::chain_at(compiled, outcome.chain))
        }
        _ => RulePlace::default(),
    };
    (name, place)
}

/// Our own object.
#[derive(Serialize)]
struct Own {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    #[serde(flatten)]
    place: RulePlace,
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<&'static str>,
    queue: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<u32>,
}

fn own(event: &Event, by: Option<&'static str>, place: RulePlace) -> Own {
    let outcome = &event.outcome;
    let mark = if outcome.mark_set {
        outcome.mark
    } else {
        event.mark
    };
    Own {
        verdict: verdict::name(outcome.verdict),
        by,
        place,
        hook: HOOKS.get(usize::from(event.hook)).map(|hook| hook.1),
        queue: event.queue,
        generation: (event.generation > 0).then_some(event.generation),
        mark: (outcome.mark_set || mark != 0).then_some(mark),
    }
}

/// All that the policy could ask about a packet besides its bytes.
#[derive(Serialize)]
struct Input {
    length: u32,
    captured: usize,
    ethertype: u16,
    hook: u8,
    iif: u32,
    iifname: String,
    oif: u32,
    oifname: String,
    mark: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    ct_state: Option<String>,
    ct_mark: Option<u32>,
    status: &'static str,
    truncated: bool,
}

#[derive(Serialize)]
struct PacketInfo {
    linktype: u32,
}

#[derive(Serialize)]
struct PacketObject {
    packet: String,
    packet_info: PacketInfo,
    input: Input,
}

fn input_object(text: &EventText, packet: &Packet) -> Input {
    let event = text.event;
    let ct_state = |state: u32| print::value(Type::CtState, state.into());
    Input {
        length: event.length,
        captured: packet.bytes.len(),
        ethertype: event.ethertype,
        hook: event.hook,
        iif: event.iif,
        iifname: object::string_of(text.iifname),
        oif: event.oif,
        oifname: object::string_of(text.oifname),
        mark: event.mark,
        uid: event.uid,
        gid: event.gid,
        ct_state: event.ct_state.map(ct_state),
        ct_mark: event.ct_mark,
        status: packet::status_name(event.status),
        truncated: event.truncated,
    }
}

fn packet_object(text: &EventText, packet: &Packet) -> PacketObject {
    PacketObject {
        packet: STANDARD.encode(packet.bytes),
        packet_info: PacketInfo {
            linktype: LINKTYPE_RAW,
        },
        input: input_object(text, packet),
    }
}

/// A line without the packet's bytes.
fn begin_line(text: &EventText, packet: &Packet, typed: Typed, twinwall: Own) -> Line {
    Line {
        timestamp: timestamp(text.event.time_ns),
        flow_id: headers::flow_id(packet),
        in_iface: (!text.iifname.is_empty()).then(|| object::string_of(text.iifname)),
        out_iface: (!text.oifname.is_empty()).then(|| object::string_of(text.oifname)),
        event_type: typed.0,
        tuple: headers::tuple(packet),
        typed,
        twinwall,
        packet: None,
    }
}

/// What an event's type adds.
#[derive(Serialize)]
#[serde(untagged)]
enum TypeObject {
    Anomaly {
        #[serde(rename = "type")]
        kind: &'static str,
        event: String,
    },
    Verdict {
        #[serde(flatten)]
        headers: Layers,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reply: Option<String>,
    },
    Log {
        action: &'static str,
        prefix: String,
        level: &'static str,
        #[serde(flatten)]
        headers: Layers,
    },
}

/// The type's object, under the type's name.
struct Typed(&'static str, TypeObject);

impl Serialize for Typed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, &self.1)])
    }
}

#[derive(Serialize)]
struct Line {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_iface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_iface: Option<String>,
    event_type: &'static str,
    #[serde(flatten)]
    tuple: Tuple,
    #[serde(flatten)]
    typed: Typed,
    twinwall: Own,
    #[serde(flatten)]
    packet: Option<PacketObject>,
}

fn is_anomaly(event: &Event) -> bool {
    event::classes(event.status, event.truncated, &event.outcome) & event::ANOMALY != 0
}

fn anomaly_object(event: &Event) -> TypeObject {
    let name = if event.truncated {
        "truncated"
    } else if event.outcome.undecidable {
        "undecidable"
    } else {
        packet::status_name(event.status)
    };
    TypeObject::Anomaly {
        kind: "decode",
        event: format!("decoder.{name}"),
    }
}

/// What Suricata calls the reason of a drop.
fn reason_of(by: DecideBy) -> &'static str {
    match by {
        DecideBy::Rule => "rules",
        _ => "default packet policy",
    }
}

fn verdict_object(event: &Event, packet: &Packet) -> TypeObject {
    let outcome = &event.outcome;
    let reply = outcome
        .reject
        .filter(|_| outcome.verdict == Verdict::Reject);
    TypeObject::Verdict {
        headers: headers::layers(packet),
        reason: (outcome.verdict == Verdict::Drop).then(|| reason_of(outcome.by)),
        reply: reply.map(|reply| describe::reply(&reply, packet.version)),
    }
}

/// The line of a packet: accept, drop, reject or anomaly.
/// packet: with the packet's bytes and all that the policy could ask.
pub fn packet(text: &EventText, packet: bool) -> String {
    let event = text.event;
    let parsed = event::packet(event);
    let typed = if is_anomaly(event) {
        Typed("anomaly", anomaly_object(event))
    } else {
        let name = verdict::name(event.outcome.verdict);
        Typed(name, verdict_object(event, &parsed))
    };
    let (by, place) = by(text);
    let mut line = begin_line(text, &parsed, typed, own(event, Some(by), place));
    line.packet = packet.then(|| packet_object(text, &parsed));
    object::line(&line)
}

/// The line of a log statement that the packet passed, by its place in outcome.logs; nothing if it
/// does not stand in the policy.
pub fn log(text: &EventText, log: usize) -> Option<String> {
    let event = text.event;
    let parsed = event::packet(event);
    let (policy, compiled) = text.policy?;
    let place = compile::log_at(compiled, *event.outcome.logs.get(log)?);
    let StatementKind::Log(said) = &describe::statement(policy, place)?.kind else {
        return None;
    };
    let accepted = event.outcome.verdict == Verdict::Accept;
    let typed = TypeObject::Log {
        action: if accepted { "allowed" } else { "blocked" },
        prefix: said.prefix.clone(),
        level: value::level_name(said.level),
        headers: headers::layers(&parsed),
    };
    let place = RulePlace {
        statement: Some(place.statement),
        ..rule_place(policy, place)
    };
    let own = own(event, None, place);
    Some(object::line(&begin_line(
        text,
        &parsed,
        Typed("log", typed),
        own,
    )))
}

/// Figures, and what they are called.
struct Figures<'a>(&'a [u64], &'static [&'static str]);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.1.iter().zip(self.0))
    }
}

#[derive(Serialize)]
struct Program<'a> {
    event: &'static str,
    program: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(flatten)]
    figures: Figures<'a>,
}

#[derive(Serialize)]
struct ProgramLine<'a> {
    timestamp: String,
    event_type: &'static str,
    twinwall: Program<'a>,
}

/// The line of one of the program's own events. time_ns: UNIX time.
pub fn own_line(time_ns: u64, kind: EventsKind, facts: &EventsFacts) -> String {
    let names = spec::event::names(kind);
    object::line(&ProgramLine {
        timestamp: timestamp(time_ns),
        event_type: "twinwall",
        twinwall: Program {
            event: names.name,
            program: PROGRAM,
            version: VERSION,
            text: facts.text,
            figures: Figures(facts.figures, names.figures),
        },
    })
}
