// SPDX-License-Identifier: GPL-2.0-or-later
//! Events as lines of JSON, in the format of Suricata's EVE (docs/EVENTS.md). Each line has its line end.

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use chrono::DateTime;

use crate::base::object;
use crate::engine::compile;
use crate::engine::compiled::Compiled;
use crate::engine::types::{CompilePlace, DecideBy};
use crate::events::headers;
use crate::events::types::{EventsFacts, EventsKind};
use crate::explain::describe;
use crate::names::{self, Names, NamesProtocol, NamesState};
use crate::options::{PROGRAM, VERSION};
use crate::packet::verdict::{self, Verdict};
use crate::packet::{self, Packet};
use crate::policy::print;
use crate::policy::value;
use crate::policy::{self, Policy, StatementKind, Type, HOOKS};
use crate::spec;
use crate::spec::event::{
    EventAccept, EventAnomaly, EventDns, EventDrop, EventFigures, EventHeaders, EventHttp,
    EventInput, EventLine, EventLog, EventOwn, EventOwnLine, EventPacketInfo, EventQuic,
    EventReject, EventTls, EventTwinwall,
};
use crate::worker::event::{self, Event};

const LINKTYPE_RAW: u64 = 101;

/// Record of an event, with the policy and the interface names to which its numbers refer.
#[derive(Clone, Copy)]
pub struct EventText<'a> {
    pub event: &'a Event,
    /// Policy of the record's generation; None if there was no policy, or it has been removed.
    pub policy: Option<(&'a Policy, &'a Compiled)>,
    /// Name of the interface at which the packet arrived; empty = none.
    pub iifname: &'a [u8],
    /// Name of the interface by which the packet leaves; empty = none.
    pub oifname: &'a [u8],
}

fn timestamp(time_ns: u64) -> Cow<'static, str> {
    let time = DateTime::from_timestamp_nanos(i64::try_from(time_ns).unwrap_or(i64::MAX));
    let text = time.format("%Y-%m-%dT%H:%M:%S%.6f+0000");
    text.to_string().into()
}

/// Adds the position and the comment of a rule.
fn fill_rule_place(own: &mut EventTwinwall, policy: &Policy, place: CompilePlace) {
    let comment = describe::rule(policy, place).and_then(|rule| rule.comment.clone());
    own.rule = Some(describe::place(policy, place).into());
    own.comment = comment.map(Cow::from);
}

fn fill_chain_place(own: &mut EventTwinwall, policy: &Policy, place: CompilePlace) {
    let Some(table) = policy.tables.get(place.table as usize) else {
        return;
    };
    let family = policy::family_name(table.family);
    own.table = Some(format!("{family} {}", table.name).into());
    let chain = table.chains.get(place.chain as usize);
    own.chain = chain.map(|chain| chain.name.clone().into());
}

/// Adds the source of the verdict: a rule, a chain's policy, an option, or a refused connection.
fn fill_by(own: &mut EventTwinwall, text: &EventText) {
    let outcome = &text.event.outcome;
    let name = match outcome.by {
        DecideBy::Rule => "rule",
        DecideBy::Policy => "policy",
        DecideBy::Default => "default",
        DecideBy::Fail => "fail",
        DecideBy::Undecided => "undecided",
        DecideBy::Connection => "connection",
    };
    own.by = Some(name.into());
    let Some((policy, compiled)) = text.policy else {
        return;
    };
    if outcome.by == DecideBy::Rule {
        let place = compile::rule_at(compiled, outcome.rule);
        fill_rule_place(own, policy, place);
        fill_chain_place(own, policy, place);
    } else if outcome.by == DecideBy::Policy {
        fill_chain_place(own, policy, compile::chain_at(compiled, outcome.chain));
    }
}

/// Adds a packet's members of the object `twinwall`: verdict, hook and queue, and generation and mark if they are set.
fn fill_own(own: &mut EventTwinwall, event: &Event) {
    let outcome = &event.outcome;
    let mark = if outcome.mark_set {
        outcome.mark
    } else {
        event.mark
    };
    let hook = HOOKS.get(usize::from(event.hook));
    own.verdict = verdict::name(outcome.verdict).into();
    own.hook = hook.map(|hook| hook.1.into());
    own.queue = event.queue.into();
    own.generation = (event.generation > 0).then_some(event.generation.into());
    own.mark = (outcome.mark_set || mark != 0).then_some(mark.into());
}

/// Returns the object `input` of a packet's line: the packet's metadata.
fn input_of(text: &EventText, packet: &Packet) -> EventInput {
    let event = text.event;
    let ct_state = |state: u32| print::value(Type::CtState, state.into()).into();
    EventInput {
        length: event.length.into(),
        captured: packet.bytes.len() as u64,
        ethertype: event.ethertype.into(),
        hook: event.hook.into(),
        iif: event.iif.into(),
        iifname: object::string_of(text.iifname).into(),
        oif: event.oif.into(),
        oifname: object::string_of(text.oifname).into(),
        mark: event.mark.into(),
        uid: event.uid.map(u64::from),
        gid: event.gid.map(u64::from),
        ct_state: event.ct_state.map(ct_state),
        ct_mark: event.ct_mark.map(u64::from),
        status: packet::status_name(event.status).into(),
        truncated: event.truncated,
    }
}

fn fill_packet(line: &mut EventLine, text: &EventText, packet: &Packet) {
    line.packet = Some(STANDARD.encode(packet.bytes).into());
    line.packet_info = Some(EventPacketInfo {
        linktype: LINKTYPE_RAW,
    });
    line.input = Some(input_of(text, packet));
}

/// Returns a name from a packet, with `?` for bytes that are not printable ASCII; None if it is empty.
pub fn shown(name: &[u8]) -> Option<Cow<'static, str>> {
    let show = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    };
    (!name.is_empty()).then(|| name.iter().map(show).collect::<String>().into())
}

/// Returns the highest TLS version that a client offers; None if it offers none.
fn version_of(names: &Names) -> Option<Cow<'static, str>> {
    let version = print::value(Type::TlsVersion, names.version.into());
    (names.version != 0).then(|| format!("TLS {version}").into())
}

/// Returns the type of a DNS query, in capital letters.
fn type_of(names: &Names) -> Cow<'static, str> {
    let kind = print::value(Type::DnsType, names.dns_type.into());
    kind.to_ascii_uppercase().into()
}

/// Adds the names that the packet's client has shown, in the object of its protocol.
fn fill_names(line: &mut EventLine, names: &Names) {
    if names.state != NamesState::Known {
        return;
    }
    let host = shown(names::host(names));
    match names.protocol {
        NamesProtocol::Other => {}
        NamesProtocol::Tls => {
            line.tls = Some(EventTls {
                sni: host,
                version: version_of(names),
            });
        }
        NamesProtocol::Quic => line.quic = Some(EventQuic { sni: host }),
        NamesProtocol::Http => {
            let method = names.method.get(..names.method_length.into());
            line.http = Some(EventHttp {
                hostname: host,
                http_method: shown(method.unwrap_or_default()).unwrap_or_default(),
            });
        }
        NamesProtocol::Dns => {
            line.dns = Some(EventDns {
                r#type: "query".into(),
                rrname: host.unwrap_or_default(),
                rrtype: type_of(names),
            });
        }
    }
}

/// Returns the beginning of a line: the members before the members of its event type.
fn begin_line(text: &EventText, packet: &Packet, name: &'static str) -> EventLine {
    let interface = |name: &[u8]| (!name.is_empty()).then(|| object::string_of(name).into());
    let mut line = EventLine {
        timestamp: timestamp(text.event.time_ns),
        flow_id: headers::flow_id(packet),
        in_iface: interface(text.iifname),
        out_iface: interface(text.oifname),
        event_type: name.into(),
        ..EventLine::default()
    };
    headers::fill_tuple(&mut line, packet);
    fill_names(&mut line, &text.event.names);
    line
}

fn is_anomaly(event: &Event) -> bool {
    event::classes(event.status, event.truncated, &event.outcome) & event::ANOMALY != 0
}

fn anomaly_of(event: &Event) -> EventAnomaly {
    let name = if event.truncated {
        "truncated"
    } else if event.outcome.undecidable {
        "undecidable"
    } else {
        packet::status_name(event.status)
    };
    EventAnomaly {
        r#type: "decode".into(),
        event: format!("decoder.{name}").into(),
    }
}

/// Returns Suricata's name of the reason for a drop.
fn reason_of(by: DecideBy) -> Cow<'static, str> {
    match by {
        DecideBy::Rule => "rules".into(),
        _ => "default packet policy".into(),
    }
}

/// Adds the JSON object that describes the verdict, under the verdict's name.
fn fill_verdict(line: &mut EventLine, event: &Event, parsed: &Packet) {
    let outcome = &event.outcome;
    let mut headers = EventHeaders::default();
    headers::fill_layers(&mut headers, parsed);
    match outcome.verdict {
        Verdict::Drop => {
            let reason = reason_of(outcome.by);
            line.drop = Some(EventDrop { headers, reason });
        }
        Verdict::Reject => {
            let reply = outcome
                .reject
                .map(|reply| describe::reply(&reply, parsed.version));
            line.reject = Some(EventReject {
                headers,
                reply: reply.unwrap_or_default().into(),
            });
        }
        // The only other verdict is accept.
        _ => line.accept = Some(EventAccept { headers }),
    }
}

/// Returns the line of a packet: accept, drop, reject or anomaly.
/// - packet: true to include the packet's bytes and metadata (the object `input`).
pub fn packet(text: &EventText, packet: bool) -> String {
    let event = text.event;
    let parsed = event::packet(event);
    let mut line;
    if is_anomaly(event) {
        line = begin_line(text, &parsed, "anomaly");
        line.anomaly = Some(anomaly_of(event));
    } else {
        line = begin_line(text, &parsed, verdict::name(event.outcome.verdict));
        fill_verdict(&mut line, event, &parsed);
    }
    fill_by(&mut line.twinwall, text);
    fill_own(&mut line.twinwall, event);
    if packet {
        fill_packet(&mut line, text, &parsed);
    }
    object::line(&line)
}

/// Returns the line of a log statement; None if the policy does not have the statement.
/// - log: index in outcome.logs.
pub fn log(text: &EventText, log: usize) -> Option<String> {
    let event = text.event;
    let parsed = event::packet(event);
    let (policy, compiled) = text.policy?;
    let place = compile::log_at(compiled, *event.outcome.logs.get(log)?);
    let StatementKind::Log(said) = &describe::statement(policy, place)?.kind else {
        return None;
    };
    let accepted = event.outcome.verdict == Verdict::Accept;
    let mut line = begin_line(text, &parsed, "log");
    let mut object = EventLog {
        action: if accepted { "allowed" } else { "blocked" }.into(),
        prefix: said.prefix.clone().into(),
        level: value::level_name(said.level).into(),
        ..EventLog::default()
    };
    headers::fill_layers(&mut object.headers, &parsed);
    line.log = Some(object);
    fill_rule_place(&mut line.twinwall, policy, place);
    fill_chain_place(&mut line.twinwall, policy, place);
    line.twinwall.statement = Some(place.statement.into());
    fill_own(&mut line.twinwall, event);
    Some(object::line(&line))
}

/// Returns the line of an event about the program itself.
/// - time_ns: UNIX time.
pub fn own_line(time_ns: u64, kind: EventsKind, facts: &EventsFacts) -> String {
    let names = spec::event::names(kind);
    object::line(&EventOwnLine {
        timestamp: timestamp(time_ns),
        event_type: "twinwall".into(),
        twinwall: EventOwn {
            event: names.name.into(),
            program: PROGRAM.into(),
            version: VERSION.into(),
            text: facts.text.map(|text| text.to_owned().into()),
            figures: EventFigures {
                names: names.figures,
                values: facts.figures.to_vec(),
            },
        },
    })
}
