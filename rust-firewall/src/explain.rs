// SPDX-License-Identifier: GPL-2.0-or-later
//! `explain`: the packets of a capture through a policy, each with its verdict and the walk there.
//!
//! Theory of operation: each packet is decided twice, by the policy as the daemon compiles it and
//! rule by rule; the walk that is told of is the second. A difference between the two is a fault of
//! the program, and ends it.

use std::io::{self, BufWriter, Write};

use crate::compile::{self, CompilePlace, CompileSettings, Compiled};
use crate::decide::{self, DecideBy, DecideInput, DecideOutcome, DecidePolicy, DecideSettings};
use crate::explain_json;
use crate::explain_text;
use crate::fields;
use crate::flow::{self, Flow, FlowCounter, FlowCounters};
use crate::interface;
use crate::log::{self, failure_set, Failure, LogExit};
use crate::options::{Options, OptionsExplain, OptionsSituation};
use crate::packet::{self, Packet, PacketStatus};
use crate::parse;
use crate::pcap::{self, PcapPacket};
use crate::policy::{Hook, Policy};
use crate::reject;
use crate::trace::{self, Trace};
use crate::verdict::Verdict;

/// The interfaces' indexes here.
const INDEX_IIF: u32 = 1;
const INDEX_OIF: u32 = 2;

/// The sums over all packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplainSums {
    pub packets: u64,
    pub accepted: u64,
    pub dropped: u64,
    pub rejected: u64,
}

/// A policy compiled, with its state.
pub struct ExplainEngine {
    pub compiled: Compiled,
    pub flow: Flow,
    pub counters: FlowCounters,
}

/// What packets are explained by.
pub struct Explain<'a> {
    pub options: &'a Options,
    pub policy: Policy,
    pub hook: Hook,
    /// As the daemon has it.
    pub daemon: ExplainEngine,
    /// Rule by rule.
    pub linear: ExplainEngine,
    pub sums: ExplainSums,
    /// Frames that are not IP.
    pub skipped: u64,
    /// When the first packet came.
    first_ns: u64,
    /// The time of the latest packet so far.
    now_ns: u64,
    pub trace: Trace,
}

/// The packet at hand.
pub struct Explained<'a> {
    /// Of its frame, from 1.
    pub number: u64,
    /// Since the first.
    pub time_ns: i64,
    pub packet: Packet<'a>,
    pub status: PacketStatus,
    pub outcome: DecideOutcome,
    /// A reject whose answer is due.
    pub is_answered: bool,
}

/// The name of the interface that has this index here; empty = none.
pub fn interface(options: &Options, index: u32) -> Vec<u8> {
    match index {
        INDEX_IIF => options.explain.iif.clone(),
        INDEX_OIF => options.explain.oif.clone(),
        _ => Vec::new(),
    }
}

/// The index of a name: if both interfaces have it, the first one's.
fn index_of(given: &OptionsExplain, name: &[u8]) -> u32 {
    match name {
        [] => 0,
        name if name == given.iif => INDEX_IIF,
        name if name == given.oif => INDEX_OIF,
        _ => 0,
    }
}

/// Where a counter stands, and its figures.
pub fn counter(explain: &Explain, counter: u32) -> (CompilePlace, FlowCounter) {
    let daemon = &explain.daemon;
    let start = compile::counter_start(&daemon.compiled, counter);
    let mut figures = FlowCounter {
        packets: start.packets,
        bytes: start.bytes,
    };
    flow::sum(&daemon.counters, counter, &mut figures);
    (compile::counter_at(&daemon.compiled, counter), figures)
}

fn engine_make(
    policy: &Policy,
    given: &OptionsExplain,
    linear: bool,
) -> Result<ExplainEngine, Failure> {
    let settings = CompileSettings {
        linear,
        interface_index: &|name| index_of(given, name.as_bytes()),
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(policy, &settings)?;
    Ok(ExplainEngine {
        flow: flow::make(&compiled),
        counters: flow::counters_make(&compiled),
        compiled,
    })
}

/// The hook of the base chain that stands first in the text, else input.
fn first_hook(policy: &Policy) -> Hook {
    let chains = policy.tables.iter().flat_map(|table| &table.chains);
    let mut bases = chains.filter_map(|chain| chain.base);
    bases
        .find(|base| base.declared == 0)
        .map_or(Hook::Input, |base| base.hook)
}

/// Parses as much of a packet as the daemon copies.
fn inspect<'a>(
    explain: &Explain,
    packet: &PcapPacket<'a>,
    inspected: &mut Packet<'a>,
) -> PacketStatus {
    let copy_bytes = compile::requirement(&explain.daemon.compiled).copy_bytes as usize;
    let captured = packet.bytes.get(..copy_bytes).unwrap_or(packet.bytes);
    packet::parse(captured, packet.original, inspected)
}

/// What the daemon would know of the packet.
/// - version: of its IP header.
/// - parsed, status: what `inspect` gave.
fn input_of<'a>(
    explain: &Explain,
    version: u8,
    packet: &PcapPacket,
    parsed: &'a Packet<'a>,
    status: PacketStatus,
) -> DecideInput<'a> {
    let given = &explain.options.explain;
    DecideInput {
        packet: parsed,
        status,
        truncated: false,
        hook: explain.hook as u8,
        nfproto: match version {
            4 => fields::IPV4,
            6 => fields::IPV6,
            _ => 0,
        },
        length: packet.original,
        mark: given.mark,
        iif: index_of(given, &given.iif),
        oif: index_of(given, &given.oif),
        iifname: interface::value(&given.iif),
        oifname: interface::value(&given.oif),
        uid: given.uid,
        gid: given.gid,
        ct_state: given.ct_state,
        ct_mark: given.ct_mark,
        now_ns: explain.now_ns,
    }
}

/// Whether both engines came to the same.
fn agree(explain: &Explain, a: &DecideOutcome, b: &DecideOutcome) -> bool {
    let (daemon, linear) = (&explain.daemon.compiled, &explain.linear.compiled);
    let same = (a.verdict, a.by, a.mark_set, a.mark, a.undecidable, a.reject)
        == (b.verdict, b.by, b.mark_set, b.mark, b.undecidable, b.reject);
    same && match a.by {
        DecideBy::Rule => compile::rule_at(daemon, a.rule) == compile::rule_at(linear, b.rule),
        DecideBy::Policy => {
            compile::chain_at(daemon, a.chain) == compile::chain_at(linear, b.chain)
        }
        DecideBy::Default | DecideBy::Fail => true,
    }
}

fn fail_disagreement(number: u64) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!(
            "packet {number}: the policy as compiled and its rules one by one come to different \
             results: this is a fault of the program, please report it"
        ),
    )
}

/// Compares the counters of both engines.
fn counters_agree(explain: &Explain) -> bool {
    (0..compile::counters(&explain.daemon.compiled)).all(|counter| {
        let (mut daemon, mut linear) = (FlowCounter::default(), FlowCounter::default());
        flow::sum(&explain.daemon.counters, counter, &mut daemon);
        flow::sum(&explain.linear.counters, counter, &mut linear);
        daemon == linear
    })
}

fn add_verdict(sums: &mut ExplainSums, verdict: Verdict) {
    sums.packets += 1;
    match verdict {
        Verdict::Accept => sums.accepted += 1,
        Verdict::Reject => sums.rejected += 1,
        _ => sums.dropped += 1,
    }
}

/// Whether an answer to a packet would be sent.
fn is_answered(packet: &Packet, status: PacketStatus, outcome: &DecideOutcome) -> bool {
    let mut answer = [0; reject::IPV6_MAX];
    !packet::is_malformed(status)
        && outcome
            .reject
            .is_some_and(|how| reject::build(&how, packet, &mut answer) > 0)
}

/// An engine as decide takes it.
fn policy(engine: &ExplainEngine) -> DecidePolicy<'_> {
    DecidePolicy {
        compiled: &engine.compiled,
        flow: &engine.flow,
        counters: &engine.counters,
    }
}

/// Decides a packet both ways.
fn decide_both<'a>(
    explain: &mut Explain,
    packet: &PcapPacket<'a>,
) -> Result<Explained<'a>, Failure> {
    let options = explain.options;
    let settings = DecideSettings {
        default_verdict: options.default_verdict,
        malformed_open: options.fail_open[OptionsSituation::Malformed as usize],
        truncated_open: options.fail_open[OptionsSituation::Truncated as usize],
        malformed_by_policy: options.malformed_by_policy,
    };
    let (mut whole, mut parsed) = (Packet::default(), Packet::default());
    let status = packet::parse(packet.bytes, packet.original, &mut whole);
    let inspected = inspect(explain, packet, &mut parsed);
    let input = input_of(explain, whole.version, packet, &parsed, inspected);
    let mut trace = std::mem::take(&mut explain.trace);
    trace::clear(&mut trace);
    let outcome = decide::packet(&settings, Some(&policy(&explain.daemon)), &input);
    let walked = decide::trace(
        &settings,
        Some(&policy(&explain.linear)),
        &input,
        &mut trace,
    );
    explain.trace = trace;
    if !agree(explain, &outcome, &walked) {
        return Err(fail_disagreement(packet.number));
    }
    add_verdict(&mut explain.sums, outcome.verdict);
    Ok(Explained {
        number: packet.number,
        time_ns: packet.time_ns.wrapping_sub(explain.first_ns) as i64,
        packet: whole,
        status,
        outcome,
        is_answered: is_answered(&whole, status, &outcome),
    })
}

fn explain_packet(
    explain: &mut Explain,
    packet: &PcapPacket,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if explain.sums.packets == 0 {
        explain.first_ns = packet.time_ns;
        explain.now_ns = packet.time_ns;
    }
    explain.now_ns = explain.now_ns.max(packet.time_ns);
    let explained = decide_both(explain, packet)?;
    put(
        out,
        &match explain.options.json {
            true => explain_json::packet(explain, &explained),
            false => explain_text::packet(explain, &explained),
        },
    );
    Ok(())
}

/// Nobody may be reading any more, which is no reason to end.
fn put(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes());
}

fn explain_capture(explain: &mut Explain, out: &mut impl Write) -> Result<(), Failure> {
    let mut pcap = pcap::open(&explain.options.explain.capture)?;
    let mut number = 0;
    while let Some(packet) = pcap::next(&mut pcap)? {
        number = packet.number;
        explain_packet(explain, &packet, out)?;
    }
    explain.skipped = pcap.skipped;
    if !counters_agree(explain) {
        return Err(fail_disagreement(number));
    }
    put(
        out,
        &match explain.options.json {
            true => explain_json::end(explain),
            false => explain_text::end(explain),
        },
    );
    Ok(())
}

fn explain_all(options: &Options) -> Result<(), Failure> {
    let policy = parse::file(options.policy.as_deref().unwrap_or_default())?;
    let mut explain = Explain {
        options,
        hook: options.explain.hook.unwrap_or_else(|| first_hook(&policy)),
        daemon: engine_make(&policy, &options.explain, false)?,
        linear: engine_make(&policy, &options.explain, true)?,
        policy,
        sums: ExplainSums::default(),
        skipped: 0,
        first_ns: 0,
        now_ns: 0,
        trace: Trace::default(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let result = explain_capture(&mut explain, &mut out);
    let _ = out.flush(); // what was explained stands before what went wrong
    result
}

/// Explains all packets of options.explain.capture. Returns the exit code.
pub fn run(options: &Options) -> LogExit {
    match explain_all(options) {
        Ok(()) => LogExit::Stopped,
        Err(failure) => log::fail(&failure),
    }
}
