// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests lines of events: those of tests/corpus/vectors/events.txt, for packets that the policy events.nft decides, and
//! those about the program itself.

use std::path::Path;
use std::sync::Arc;

use crate::support::lines;
use crate::support::vectors;
use crate::support::vectors::Block;
use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow;
use rust_firewall::engine::flow::DecidePolicy;
use rust_firewall::engine::types::{DecideInput, DecideSettings};
use rust_firewall::events;
use rust_firewall::events::text::EventText;
use rust_firewall::events::{EventsFacts, EventsKind};
use rust_firewall::names::{Names, NamesProtocol, NamesState};
use rust_firewall::options::VERSION;
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet, PacketStatus};
use rust_firewall::policy::parse;
use rust_firewall::policy::Policy;
use rust_firewall::worker::event;
use serde_json::Value;

const TIME_NS: u64 = 1_700_000_000_123_456_789;

fn rules() -> (Policy, Compiled) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors/events.nft");
    let text = std::fs::read(path).unwrap();
    let policy = parse::text("web.nft", &text).unwrap();
    let settings = CompileSettings {
        linear: false,
        interface_index: &|_| 0,
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(&policy, &settings).unwrap();
    (policy, compiled)
}

/// Metadata in the line `with` of a block of test vectors.
struct With {
    hook: u8,
    ethertype: u16,
    iif: u32,
    oif: u32,
    mark: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    ct_state: Option<u32>,
    ct_mark: Option<u32>,
    truncated: bool,
    policy: bool,
    iifname: Vec<u8>,
    oifname: Vec<u8>,
    names: Names,
}

/// Decodes an escaped text into a field of `Names`. Returns the number of decoded bytes.
fn keep(to: &mut [u8], text: &str) -> u8 {
    let bytes = lines::unescape(text);
    to[..bytes.len()].copy_from_slice(&bytes);
    bytes.len() as u8
}

fn set_protocol(names: &mut Names, text: &str) {
    names.state = NamesState::Known;
    names.protocol = match text {
        "tls" => NamesProtocol::Tls,
        "quic" => NamesProtocol::Quic,
        "http" => NamesProtocol::Http,
        "dns" => NamesProtocol::Dns,
        _ => panic!("{text}"),
    };
}

fn with_of(block: &Block) -> With {
    let mut with = With {
        hook: 1,
        ethertype: 0x0800,
        iif: 0,
        oif: 0,
        mark: 0,
        uid: None,
        gid: None,
        ct_state: None,
        ct_mark: None,
        truncated: false,
        policy: true,
        iifname: Vec::new(),
        oifname: Vec::new(),
        names: Names::default(),
    };
    let pairs = block.value("with").unwrap_or_default();
    for pair in pairs.split_whitespace() {
        let (key, text) = pair.split_once('=').unwrap();
        match key {
            "iifname" => with.iifname = lines::unescape(text),
            "oifname" => with.oifname = lines::unescape(text),
            "protocol" => set_protocol(&mut with.names, text),
            "host" => with.names.host_length = keep(&mut with.names.host, text),
            "method" => with.names.method_length = keep(&mut with.names.method, text),
            _ => set_number(&mut with, key, vectors::number(text)),
        }
    }
    with
}

fn set_number(with: &mut With, key: &str, value: u32) {
    match key {
        "hook" => with.hook = value as u8,
        "ethertype" => with.ethertype = value as u16,
        "iif" => with.iif = value,
        "oif" => with.oif = value,
        "mark" => with.mark = value,
        "uid" => with.uid = Some(value),
        "gid" => with.gid = Some(value),
        "ct_state" => with.ct_state = Some(value),
        "ct_mark" => with.ct_mark = Some(value),
        "truncated" => with.truncated = value != 0,
        "policy" => with.policy = value != 0,
        "version" => with.names.version = value as u16,
        "dns_type" => with.names.dns_type = value as u16,
        _ => panic!("{key}"),
    }
}

fn input_of<'a>(packet: &'a Packet<'a>, status: PacketStatus, with: &'a With) -> DecideInput<'a> {
    DecideInput {
        packet,
        status,
        truncated: with.truncated,
        hook: with.hook,
        nfproto: 0,
        length: packet.original,
        mark: with.mark,
        iif: with.iif,
        oif: with.oif,
        iifname: 0,
        oifname: 0,
        uid: with.uid,
        gid: with.gid,
        ct_state: with.ct_state,
        ct_mark: with.ct_mark,
        names: Some(&with.names),
        host_number: 0,
        alpn_bits: 0,
        refused: false,
        now_ns: 0,
    }
}

/// Returns a line without its line end. Fails unless the line is JSON.
fn text_of(line: String) -> String {
    let line = line.strip_suffix('\n').unwrap();
    serde_json::from_str::<Value>(line).unwrap();
    line.to_owned()
}

fn check(block: &Block, policy: &Policy, compiled: &Compiled) {
    let with = with_of(block);
    let bytes = block.bytes();
    let original = block
        .value("original")
        .map_or(bytes.len() as u32, vectors::number);
    let mut parsed = Packet::default();
    let status = packet::parse(&bytes, original, &mut parsed);
    let input = input_of(&parsed, status, &with);
    let settings = DecideSettings {
        default_verdict: Verdict::Accept,
        malformed_open: false,
        truncated_open: false,
        malformed_by_policy: false,
        undecided_verdict: Verdict::Accept,
        unknown_open: false,
    };
    let (flow, counters) = (flow::make(compiled), flow::counters_make(compiled));
    let asked = DecidePolicy {
        compiled,
        flow: &flow,
        counters: &counters,
    };
    let outcome = decide::packet(&settings, with.policy.then_some(&asked), &input);
    let bell = Arc::new(event::bell_make().unwrap());
    let (mut ring, mut records) = event::ring_make(7, &Arc::default(), &bell, 1);
    let generation = if with.policy { 3 } else { 0 };
    event::note(&mut ring, generation, with.ethertype, &input, &outcome);
    let mut event = records.pop().unwrap();
    event.time_ns = TIME_NS;
    let text = EventText {
        event: &event,
        policy: with.policy.then_some((policy, compiled)),
        iifname: &with.iifname,
        oifname: &with.oifname,
    };
    let mut lines: Vec<_> = (0..outcome.log_count as usize)
        .map(|log| text_of(events::text::log(&text, log).unwrap()))
        .collect();
    lines.push(text_of(events::text::packet(&text, false)));
    assert_eq!(lines, block.values("expect"), "{}", block.name());
    if let Some(full) = block.value("full") {
        assert_eq!(text_of(events::text::packet(&text, true)), full);
    }
}

#[test]
fn packets_become_the_lines_of_the_vectors() {
    let (policy, compiled) = rules();
    let blocks = vectors::read("events.txt");
    assert!(blocks.len() > 10);
    for block in blocks {
        check(&block, &policy, &compiled);
    }
}

fn flow_of(source: [u8; 4], source_port: u16, destination: [u8; 4], port: u16) -> u64 {
    let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(source_port.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 8, 0, 0]);
    let mut parsed = Packet::default();
    packet::parse(&bytes, 28, &mut parsed);
    events::headers::flow_id(&parsed).unwrap()
}

#[test]
fn a_flow_is_the_same_in_both_directions() {
    let (one, two) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let there = flow_of(one, 53, two, 4660);
    assert_eq!(there, flow_of(two, 4660, one, 53));
    assert_ne!(there, flow_of(one, 54, two, 4660));
    // With exchanged ports but the same addresses, the flow is another flow.
    assert_ne!(there, flow_of(one, 4660, two, 53));
    assert!(there < 1 << 51);
    let mut parsed = Packet::default();
    packet::parse(&[0x45], 1, &mut parsed);
    assert_eq!(events::headers::flow_id(&parsed), None);
}

#[test]
fn the_programs_own_events_have_text_and_figures() {
    let facts = EventsFacts {
        text: Some("a \"b\"\n\x1f"),
        figures: &[3, 1 << 40],
    };
    let line = events::text::own_line(TIME_NS, EventsKind::Stall, &facts);
    let begin = format!(
        r#"{{"timestamp":"2023-11-14T22:13:20.123456+0000","event_type":"twinwall","twinwall":{{"event":"stall","program":"rust-firewall","version":"{VERSION}","#
    );
    let end = r#""text":"a \"b\"\n\u001F","queue":3,"packets":1099511627776}}"#;
    assert_eq!(text_of(line), format!("{begin}{end}"));
    let line = events::text::own_line(TIME_NS, EventsKind::ReloadFailed, &EventsFacts::default());
    let begin = begin.replace("stall", "reload_failed");
    let begin = begin.strip_suffix(',').unwrap();
    assert_eq!(text_of(line), format!("{begin}}}}}"));
}
