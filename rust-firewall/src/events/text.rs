// SPDX-License-Identifier: GPL-2.0-or-later
//! Events as lines of JSON, in the shape of Suricata's EVE: docs/EVENTS.md. All lines end in a line
//! end.

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use chrono::DateTime;
use serde::{Serialize, Serializer};
use serde_json::ser::{CharEscape, Formatter};

use crate::engine::compile;
use crate::engine::compiled::Compiled;
use crate::engine::types::{CompilePlace, DecideBy};
use crate::events::types::{EventsFacts, EventsKind};
use crate::explain::describe;
use crate::options::{PROGRAM, VERSION};
use crate::packet::verdict::{self, Verdict};
use crate::packet::{self, Packet};
use crate::policy::print;
use crate::policy::value;
use crate::policy::{self, Policy, StatementKind, Type, HOOKS};
use crate::worker::event::{self, Event};
use crate::worker::reject;

/// A double holds them.
const FLOW_ID_BITS: u32 = 51;
const LINKTYPE_RAW: u32 = 101;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP_FLAG_FIN: u8 = 0x01;
const TCP_FLAG_SYN: u8 = 0x02;
const TCP_FLAG_RST: u8 = 0x04;
const TCP_FLAG_PSH: u8 = 0x08;
const TCP_FLAG_ACK: u8 = 0x10;
const TCP_FLAG_URG: u8 = 0x20;
const ICMP_ECHOES: [u8; 2] = [8, 0];
const ICMPV6_ECHOES: [u8; 2] = [128, 129];

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

fn kind_name(kind: EventsKind) -> &'static str {
    match kind {
        EventsKind::Started => "started",
        EventsKind::Stopped => "stopped",
        EventsKind::Reload => "reload",
        EventsKind::ReloadFailed => "reload_failed",
        EventsKind::Stall => "stall",
        EventsKind::Overload => "overload",
        EventsKind::Upgrade => "upgrade",
        EventsKind::LeftOut => "left_out",
        EventsKind::Lost => "lost",
    }
}

/// Writes control characters as jansson does, in capitals.
struct Capitals;

impl Formatter for Capitals {
    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let short = match escape {
            CharEscape::Quote => "\\\"",
            CharEscape::ReverseSolidus => "\\\\",
            CharEscape::Solidus => "\\/",
            CharEscape::Backspace => "\\b",
            CharEscape::FormFeed => "\\f",
            CharEscape::LineFeed => "\\n",
            CharEscape::CarriageReturn => "\\r",
            CharEscape::Tab => "\\t",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04X}"),
        };
        writer.write_all(short.as_bytes())
    }
}

/// A text that is no UTF-8 gets question marks for all that is not ASCII.
fn string_of(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => text
            .iter()
            .map(|&byte| if byte.is_ascii() { byte.into() } else { '?' })
            .collect(),
    }
}

/// The line of an object.
fn line_of(object: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    // Can't fail: memory takes everything, and our keys are strings.
    let _ = object.serialize(&mut serde_json::Serializer::with_formatter(
        &mut line, Capitals,
    ));
    line.push(b'\n');
    line
}

fn timestamp(time_ns: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(time_ns).unwrap_or(i64::MAX));
    time.format("%Y-%m-%dT%H:%M:%S%.6f+0000").to_string()
}

fn be16(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes).into())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    be16(bytes, at) << 16 | be16(bytes, at + 2)
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The two addresses; nothing if they are not known.
fn addresses_of<'a>(packet: &Packet<'a>) -> Option<(&'a [u8], &'a [u8])> {
    reject::addresses_of(packet)
}

/// Goes on with a hash (FNV-1a).
fn hash(so_far: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(so_far, |so_far, &byte| {
        (so_far ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

fn hash_end(so_far: u64, (address, port): (&[u8], u16)) -> u64 {
    hash(hash(so_far, address), &port.to_be_bytes())
}

/// What tells a flow from others: the same in both directions. 51 bits, as Suricata's. Nothing if
/// the packet's addresses are not known.
pub fn flow_id(packet: &Packet) -> Option<u64> {
    let (source, destination) = addresses_of(packet)?;
    let source = (source, packet.source_port);
    let destination = (destination, packet.destination_port);
    // The lower end first, so that both directions are one flow.
    let (low, high) = if source <= destination {
        (source, destination)
    } else {
        (destination, source)
    };
    let flow = hash_end(hash_end(hash(FNV_OFFSET, &[packet.protocol]), low), high);
    Some((flow ^ flow >> FLOW_ID_BITS) & ((1 << FLOW_ID_BITS) - 1))
}

/// Protocols as Suricata names them.
fn protocol_name(protocol: u8) -> String {
    let name = match libc::c_int::from(protocol) {
        libc::IPPROTO_ICMP => "ICMP",
        libc::IPPROTO_IGMP => "IGMP",
        libc::IPPROTO_TCP => "TCP",
        libc::IPPROTO_UDP => "UDP",
        libc::IPPROTO_GRE => "GRE",
        libc::IPPROTO_ESP => "ESP",
        libc::IPPROTO_AH => "AH",
        libc::IPPROTO_ICMPV6 => "IPv6-ICMP",
        libc::IPPROTO_SCTP => "SCTP",
        _ => return format!("{protocol:03}"),
    };
    name.to_owned()
}

fn address(packet: &Packet, bytes: &[u8]) -> String {
    let fold = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
    let kind = match packet.version {
        4 => Type::Ipv4Addr,
        _ => Type::Ipv6Addr,
    };
    print::value(kind, bytes.iter().fold(0, fold))
}

/// The addresses and what follows from them.
#[derive(Default, Serialize)]
struct Tuple {
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proto: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_code: Option<u8>,
}

fn tuple(packet: &Packet) -> Tuple {
    let Some((source, destination)) = addresses_of(packet) else {
        return Tuple::default();
    };
    Tuple {
        src_ip: Some(address(packet, source)),
        src_port: packet.has_ports.then_some(packet.source_port),
        dest_ip: Some(address(packet, destination)),
        dest_port: packet.has_ports.then_some(packet.destination_port),
        proto: (packet.end > 0).then(|| protocol_name(packet.protocol)),
        icmp_type: packet.has_icmp.then_some(packet.icmp_type),
        icmp_code: packet.has_icmp.then_some(packet.icmp_code),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Ip {
    V4 { tos: u8, ttl: u8, ipid: u32 },
    V6 { tc: u32, hoplimit: u8, flowlbl: u32 },
}

fn ip(packet: &Packet) -> Option<Ip> {
    let ip = packet.bytes;
    addresses_of(packet)?;
    Some(match packet.version {
        4 => Ip::V4 {
            tos: byte(ip, 1),
            ttl: byte(ip, 8),
            ipid: be16(ip, 4),
        },
        _ => Ip::V6 {
            tc: be16(ip, 0) >> 4 & 0xff,
            hoplimit: byte(ip, 7),
            flowlbl: be32(ip, 0) & 0xfffff,
        },
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Layer4 {
    Tcp {
        tcpseq: u32,
        tcpack: u32,
        tcpwin: u32,
        syn: bool,
        ack: bool,
        psh: bool,
        rst: bool,
        urg: bool,
        fin: bool,
        tcpres: u8,
        tcpurgp: u32,
    },
    Udp {
        udplen: u32,
    },
    Echo {
        icmp_id: u32,
        icmp_seq: u32,
    },
}

fn tcp(tcp: &[u8]) -> Layer4 {
    let flag = |flag| byte(tcp, 13) & flag != 0;
    Layer4::Tcp {
        tcpseq: be32(tcp, 4),
        tcpack: be32(tcp, 8),
        tcpwin: be16(tcp, 14),
        syn: flag(TCP_FLAG_SYN),
        ack: flag(TCP_FLAG_ACK),
        psh: flag(TCP_FLAG_PSH),
        rst: flag(TCP_FLAG_RST),
        urg: flag(TCP_FLAG_URG),
        fin: flag(TCP_FLAG_FIN),
        tcpres: byte(tcp, 12) & 0x0f,
        tcpurgp: be16(tcp, 18),
    }
}

fn is_echo(packet: &Packet) -> bool {
    let echoes = if packet.version == 4 {
        ICMP_ECHOES
    } else {
        ICMPV6_ECHOES
    };
    packet.has_icmp && echoes.contains(&packet.icmp_type)
}

fn layer4(packet: &Packet) -> Option<Layer4> {
    let offset = packet.l4_offset as usize;
    let l4 = packet.bytes.get(offset..).filter(|_| offset > 0)?;
    match packet.protocol {
        TCP if l4.len() >= packet::TCP_HEADER_BYTES as usize => Some(tcp(l4)),
        UDP if l4.len() >= packet::UDP_HEADER_BYTES as usize => Some(Layer4::Udp {
            udplen: be16(l4, 4),
        }),
        _ if is_echo(packet) && l4.len() >= packet::ICMP_HEADER_BYTES as usize => {
            Some(Layer4::Echo {
                icmp_id: be16(l4, 4),
                icmp_seq: be16(l4, 6),
            })
        }
        _ => None,
    }
}

/// The packet's headers, as Suricata's drop records have them.
#[derive(Serialize)]
struct Headers {
    len: u32,
    #[serde(flatten)]
    ip: Option<Ip>,
    #[serde(flatten)]
    layer4: Option<Layer4>,
}

fn headers(packet: &Packet) -> Headers {
    Headers {
        len: packet.original,
        ip: ip(packet),
        layer4: layer4(packet),
    }
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
        iifname: string_of(text.iifname),
        oif: event.oif,
        oifname: string_of(text.oifname),
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
        flow_id: flow_id(packet),
        in_iface: (!text.iifname.is_empty()).then(|| string_of(text.iifname)),
        out_iface: (!text.oifname.is_empty()).then(|| string_of(text.oifname)),
        event_type: typed.0,
        tuple: tuple(packet),
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
        headers: Headers,
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
        headers: Headers,
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
        headers: headers(packet),
        reason: (outcome.verdict == Verdict::Drop).then(|| reason_of(outcome.by)),
        reply: reply.map(|reply| describe::reply(&reply, packet.version)),
    }
}

/// The line of a packet: accept, drop, reject or anomaly.
/// packet: with the packet's bytes and all that the policy could ask.
pub fn packet(text: &EventText, packet: bool) -> Vec<u8> {
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
    line_of(&line)
}

/// The line of a log statement that the packet passed, by its place in outcome.logs; nothing if it
/// does not stand in the policy.
pub fn log(text: &EventText, log: usize) -> Option<Vec<u8>> {
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
        headers: headers(&parsed),
    };
    let place = RulePlace {
        statement: Some(place.statement),
        ..rule_place(policy, place)
    };
    let own = own(event, None, place);
    Some(line_of(&begin_line(
        text,
        &parsed,
        Typed("log", typed),
        own,
    )))
}

/// Figures by their names.
struct Figures<'a>(&'a [(&'static str, u64)]);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
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
pub fn own_line(time_ns: u64, kind: EventsKind, facts: &EventsFacts) -> Vec<u8> {
    line_of(&ProgramLine {
        timestamp: timestamp(time_ns),
        event_type: "twinwall",
        twinwall: Program {
            event: kind_name(kind),
            program: PROGRAM,
            version: VERSION,
            text: facts.text,
            figures: Figures(facts.figures),
        },
    })
}
