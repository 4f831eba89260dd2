// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of the output about a packet: its lines of events, and the output of `explain` as text and as JSON. Input:
//! the packet's metadata, an arbitrary outcome, then the packet. The policy is tests/corpus/vectors/printed.nft. With
//! TWINWALL_LINES set, prints the output for each input, to be compared with the C twin's.
#![no_main]

use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::atomic::AtomicU32;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rust_firewall::connection::Connections;
use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::{self, DecidePolicy};
use rust_firewall::engine::hostnames;
use rust_firewall::engine::interface;
use rust_firewall::engine::types::{
    DecideBy, DecideInput, DecideOutcome, DecideSettings, LOGS_MAX,
};
use rust_firewall::events::text::{self, EventText};
use rust_firewall::explain::indexes::{self, Indexes};
use rust_firewall::explain::json;
use rust_firewall::explain::text as plain;
use rust_firewall::explain::trace::{self, Trace};
use rust_firewall::explain::types::{Explain, ExplainEngine, ExplainSums, Explained};
use rust_firewall::names::{self, Names, NamesProtocol, NamesState};
use rust_firewall::options::{self, OptionsAction, OptionsFacts};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::parse;
use rust_firewall::policy::{Hook, Policy, Reject, RejectKind, HOOKS};
use rust_firewall::worker::event;

const RULES: &str = include_str!("../../../../tests/corpus/vectors/printed.nft");

const ICMPX_CODES: u8 = 4;

/// Bytes of the input that have not been read.
struct Facts<'a>(&'a [u8]);

/// Reads a little-endian number; missing bytes are 0.
fn take(facts: &mut Facts, bytes: usize) -> u64 {
    let count = bytes.min(facts.0.len());
    let (taken, left) = facts.0.split_at(count);
    let mut number = [0; 8];
    number[..count].copy_from_slice(taken);
    facts.0 = left;
    u64::from_le_bytes(number)
}

fn take_bytes(facts: &mut Facts, to: &mut [u8]) {
    for byte in to {
        *byte = take(facts, 1) as u8;
    }
}

fn take_interface(facts: &mut Facts) -> Vec<u8> {
    let mut name = [0; 15];
    take_bytes(facts, &mut name);
    name.split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .to_vec()
}

/// Data about the current packet that are not part of the policy's input.
#[derive(Default)]
struct Known {
    time_ns: u64,
    generation: u32,
    queue: u16,
    ethertype: u16,
    number: u64,
    has_names: bool,
    /// True if a rejected packet gets a reply.
    answers: bool,
    recorded: Option<Verdict>,
}

fn engine(policy: &Policy, indexes: &Indexes) -> ExplainEngine {
    let settings = CompileSettings {
        linear: true,
        interface_index: &|name| indexes::add(indexes, name.as_bytes()),
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(policy, &settings);
    let compiled = compiled.unwrap_or_else(|failure| panic!("{}", failure.text));
    ExplainEngine {
        flow: flow::make(&compiled),
        counters: flow::counters_make(&compiled),
        compiled,
    }
}

fn load() -> Explain<'static> {
    let words = ["fuzz", "explain", "policy", "capture"].map(OsString::from);
    let Ok(OptionsAction::Explain(options)) = options::parse(&words) else {
        panic!("no options");
    };
    let policy = parse::text("t", RULES.as_bytes());
    let policy = policy.unwrap_or_else(|failure| panic!("{}", failure.text));
    let indexes = Indexes::default();
    Explain {
        options: Box::leak(Box::new(options)),
        hook: Hook::Input,
        connections: None::<Box<Connections>>,
        asked: None,
        daemon: engine(&policy, &indexes),
        linear: engine(&policy, &indexes),
        indexes,
        facts: OptionsFacts::default(),
        policy,
        sums: ExplainSums::default(),
        skipped: 0,
        first_ns: 0,
        now_ns: 0,
        shown: Names::default(),
        trace: Trace::default(),
    }
}

fn take_names(facts: &mut Facts) -> Names {
    const STATES: [NamesState; 4] = [
        NamesState::None,
        NamesState::Undecided,
        NamesState::Known,
        NamesState::Unreadable,
    ];
    const PROTOCOLS: [NamesProtocol; 5] = [
        NamesProtocol::Other,
        NamesProtocol::Tls,
        NamesProtocol::Quic,
        NamesProtocol::Http,
        NamesProtocol::Dns,
    ];
    let mut names = Names {
        state: STATES[take(facts, 1) as usize % STATES.len()],
        protocol: PROTOCOLS[take(facts, 1) as usize % PROTOCOLS.len()],
        ech: take(facts, 1) % 2 == 1,
        version: take(facts, 2) as u16,
        dns_type: take(facts, 2) as u16,
        host_length: (take(facts, 1) as usize % (names::HOST_BYTES + 1)) as u8,
        alpn_length: take(facts, 1) as u8,
        method_length: (take(facts, 1) as usize % (names::METHOD_BYTES + 1)) as u8,
        ..Names::default()
    };
    let (host, alpn, method) = (names.host_length, names.alpn_length, names.method_length);
    take_bytes(facts, &mut names.host[..host.into()]);
    take_bytes(facts, &mut names.alpn[..alpn.into()]);
    take_bytes(facts, &mut names.method[..method.into()]);
    names
}

fn verdict_of(accepts: bool) -> Verdict {
    match accepts {
        true => Verdict::Accept,
        false => Verdict::Drop,
    }
}

/// Reads the settings, and the flags that say which metadata the packet has.
fn take_options<'a>(
    facts: &mut Facts,
    parsed: &'a Packet<'a>,
) -> (DecideSettings, DecideInput<'a>, Known) {
    let bits = take(facts, 2);
    let has = |bit: u64| (bits & bit != 0).then_some(0);
    let settings = DecideSettings {
        default_verdict: verdict_of(bits & 1 != 0),
        malformed_open: bits & 2 != 0,
        truncated_open: bits & 4 != 0,
        malformed_by_policy: bits & 8 != 0,
        undecided_verdict: verdict_of(bits & 16 != 0),
        unknown_open: bits & 32 != 0,
    };
    let input = DecideInput {
        packet: parsed,
        status: packet::PacketStatus::Ok,
        truncated: bits & 64 != 0,
        hook: 0,
        nfproto: 0,
        length: 0,
        mark: 0,
        iif: 0,
        oif: 0,
        iifname: 0,
        oifname: 0,
        uid: has(128),
        gid: has(256),
        ct_state: has(512),
        ct_mark: has(1024),
        names: None,
        host_number: 0,
        alpn_bits: 0,
        refused: bits & 2048 != 0,
        now_ns: 0,
    };
    let known = Known {
        has_names: bits & 4096 != 0,
        answers: bits & 8192 != 0,
        recorded: (bits & 16384 != 0).then(|| verdict_of(bits & 32768 != 0)),
        ..Known::default()
    };
    (settings, input, known)
}

/// Reads a packet's metadata into `explain`, `input` and `known`: the kernel's metadata, the names, and the packet's
/// number in the capture.
fn take_packet(
    facts: &mut Facts,
    explain: &mut Explain,
    input: &mut DecideInput,
    known: &mut Known,
) {
    const FAMILIES: [u8; 3] = [0, 2, 10];
    input.hook = (take(facts, 1) as usize % (HOOKS.len() + 1)) as u8;
    input.nfproto = FAMILIES[take(facts, 1) as usize % 3];
    known.ethertype = take(facts, 2) as u16;
    known.queue = take(facts, 2) as u16;
    known.generation = take(facts, 4) as u32;
    known.time_ns = take(facts, 8) >> 1;
    input.length = take(facts, 4) as u32;
    input.mark = take(facts, 4) as u32;
    for value in [
        &mut input.uid,
        &mut input.gid,
        &mut input.ct_state,
        &mut input.ct_mark,
    ] {
        let number = take(facts, 4) as u32;
        *value = value.map(|_| number);
    }
    explain.facts.iif = take_interface(facts);
    explain.facts.oif = take_interface(facts);
    input.iif = indexes::iif(&explain.indexes, &explain.facts.iif);
    input.oif = indexes::oif(&explain.indexes, &explain.facts.oif, &explain.facts.iif);
    input.iifname = interface::value(&explain.facts.iif);
    input.oifname = interface::value(&explain.facts.oif);
    explain.shown = take_names(facts);
    known.number = take(facts, 4);
}

/// Reads an arbitrary outcome.
/// - logs: number of log statements in the policy.
fn take_outcome(facts: &mut Facts, logs: u32) -> DecideOutcome {
    const VERDICTS: [Verdict; 3] = [Verdict::Accept, Verdict::Drop, Verdict::Reject];
    const BY: [DecideBy; 6] = [
        DecideBy::Rule,
        DecideBy::Policy,
        DecideBy::Default,
        DecideBy::Fail,
        DecideBy::Undecided,
        DecideBy::Connection,
    ];
    const KINDS: [RejectKind; 4] = [
        RejectKind::TcpReset,
        RejectKind::Icmp,
        RejectKind::Icmpv6,
        RejectKind::Icmpx,
    ];
    let verdict = VERDICTS[take(facts, 1) as usize % VERDICTS.len()];
    let by = BY[take(facts, 1) as usize % BY.len()];
    let mark_set = take(facts, 1) % 2 == 1;
    let mark = take(facts, 4) as u32;
    let kind = KINDS[take(facts, 1) as usize % KINDS.len()];
    let mut code = take(facts, 1) as u8;
    if kind == RejectKind::Icmpx {
        code %= ICMPX_CODES;
    }
    let mut outcome = DecideOutcome {
        verdict,
        by,
        rule: 0,
        chain: 0,
        mark_set,
        mark,
        reject: (verdict == Verdict::Reject).then_some(Reject { kind, code }),
        undecidable: take(facts, 1) % 2 == 1,
        undecided: take(facts, 1) % 2 == 1,
        read_names: false,
        log_count: 0,
        logs: [0; LOGS_MAX],
    };
    outcome.log_count = take(facts, 1) as u32 % (LOGS_MAX as u32 + 1);
    for log in 0..outcome.log_count as usize {
        outcome.logs[log] = take(facts, 1) as u32 % logs;
    }
    outcome
}

/// Returns all output about a packet: its lines of events, and the output of `explain` as JSON and as text.
fn print(
    explain: &Explain,
    input: &DecideInput,
    known: &Known,
    packet: &Packet,
    outcome: &DecideOutcome,
) -> String {
    let bell = Arc::new(event::bell_make().expect("an eventfd"));
    let wanted = Arc::new(AtomicU32::new(0));
    let (mut ring, mut records) = event::ring_make(known.queue, &wanted, &bell, 1);
    event::note(&mut ring, known.generation, known.ethertype, input, outcome);
    let mut event = records.pop().expect("an event");
    event.time_ns = known.time_ns;
    let told = EventText {
        event: &event,
        policy: Some((&explain.policy, &explain.daemon.compiled)),
        iifname: &explain.facts.iif,
        oifname: &explain.facts.oif,
    };
    let explained = Explained {
        number: known.number,
        time_ns: known.time_ns as i64,
        packet: *packet,
        status: input.status,
        outcome: *outcome,
        has_reply: known.answers && outcome.verdict == Verdict::Reject,
        recorded: known.recorded,
    };
    let mut out = text::packet(&told, false);
    out += &text::packet(&told, true);
    for log in 0..outcome.log_count.min(LOGS_MAX as u32) {
        out += &text::log(&told, log as usize).expect("a log statement");
    }
    out += &json::packet(explain, &explained);
    out + &plain::packet(explain, &explained)
}

/// Decides the current packet by the policy, and stores the trace of the decision in `explain`.
fn decide_on(
    explain: &mut Explain,
    settings: &DecideSettings,
    input: &DecideInput,
) -> DecideOutcome {
    trace::clear(&mut explain.trace);
    let policy = DecidePolicy {
        compiled: &explain.daemon.compiled,
        flow: &explain.daemon.flow,
        counters: &explain.daemon.counters,
    };
    decide::trace(settings, Some(&policy), input, &mut explain.trace)
}

thread_local! {
    static EXPLAIN: RefCell<Explain<'static>> = RefCell::new(load());
}

fuzz_target!(|data: &[u8]| {
    EXPLAIN.with_borrow_mut(|explain| {
        let mut facts = Facts(data);
        let mut parsed = Packet::default();
        let nothing = Packet::default();
        let (settings, mut input, mut known) = take_options(&mut facts, &nothing);
        take_packet(&mut facts, explain, &mut input, &mut known);
        let mut odd = take_outcome(&mut facts, compile::logs(&explain.daemon.compiled));
        input.status = packet::parse(facts.0, facts.0.len() as u32, &mut parsed);
        input.packet = &parsed;
        let shown = explain.shown;
        if known.has_names {
            input.names = Some(&shown);
            (input.host_number, input.alpn_bits) =
                hostnames::resolve(&explain.daemon.compiled.hosts, &shown);
        }
        let outcome = decide_on(explain, &settings, &input);
        let mut out = print(explain, &input, &known, &parsed, &outcome);
        odd.rule = outcome.rule;
        odd.chain = outcome.chain;
        out += &print(explain, &input, &known, &parsed, &odd);
        if std::env::var_os("TWINWALL_LINES").is_some() {
            std::print!("{out}");
        }
    });
});
