// SPDX-License-Identifier: GPL-2.0-or-later
//! Command `explain`: decides the packets of a capture by a policy, and prints each verdict with the rules that led to
//! it.
//!
//! Theory of operation: each packet is decided twice, first by the policy as the daemon compiles it, then rule by rule.
//! The printed trace is that of the second decision. If the results differ, the program has a defect, and ends with an
//! error.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use crate::base::log::{self, failure_set, Failure, LogExit};
use crate::connection::asked;
use crate::connection::follow;
use crate::connection::{ConnectionChecksum, ConnectionInput, Connections};
use crate::engine::compile::{self, CompileSettings};
use crate::engine::decide;
use crate::engine::fields;
use crate::engine::flow::{self, DecidePolicy, FlowCounter};
use crate::engine::interface;
use crate::engine::learned;
use crate::engine::named::{self, Named};
use crate::engine::teach::{self, TeachOutput};
use crate::engine::types::{DecideBy, DecideInput, DecideOutcome, DecideSettings};
use crate::explain::comment;
use crate::explain::indexes::{self, Indexes};
use crate::explain::json;
use crate::explain::text;
use crate::explain::trace::{self, Trace};
use crate::explain::types::{self, Explain, ExplainEngine, ExplainSums, Explained};
use crate::names::Names;
use crate::options::{self, Options, OptionsFacts, OptionsSituation};
use crate::packet::pcap::{self, PcapPacket};
use crate::packet::verdict::Verdict;
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::parse;
use crate::policy::requirement::Requirement;
use crate::policy::{Hook, Policy};
use crate::worker::reject;

/// Generation of the only policy.
const GENERATION: u64 = 1;

fn engine_make(policy: &Policy, indexes: &Indexes, linear: bool) -> Result<ExplainEngine, Failure> {
    let settings = CompileSettings {
        linear,
        interface_index: &|name| indexes::add(indexes, name.as_bytes()),
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(policy, &settings)?;
    Ok(ExplainEngine {
        flow: flow::make(&compiled),
        counters: flow::counters_make(&compiled),
        compiled,
    })
}

/// Returns the hook of the base chain that comes first in the policy's text; input if there is no base chain.
fn first_hook(policy: &Policy) -> Hook {
    let chains = policy.tables.iter().flat_map(|table| &table.chains);
    let mut bases = chains.filter_map(|chain| chain.base);
    bases
        .find(|base| base.declared == 0)
        .map_or(Hook::Input, |base| base.hook)
}

/// Parses the bytes of a packet that the daemon would copy.
fn inspect<'a>(
    explain: &Explain,
    packet: &PcapPacket<'a>,
    inspected: &mut Packet<'a>,
) -> PacketStatus {
    let copy_bytes = explain.options.copy_bytes as usize;
    let captured = packet.bytes.get(..copy_bytes).unwrap_or(packet.bytes);
    packet::parse(captured, packet.original, inspected)
}

/// Returns the IP version (NFPROTO_*) that the kernel would report for a packet.
/// - version: IP version in the frame; 0 = decide reads it from the packet.
fn nfproto_of(version: u8) -> u8 {
    match version {
        4 => fields::IPV4,
        6 => fields::IPV6,
        _ => 0,
    }
}

/// Returns the policy's input for a packet, with the metadata that the daemon would have.
/// - parsed, status: results of `inspect`.
fn input_of<'a>(
    explain: &Explain,
    packet: &PcapPacket,
    parsed: &'a Packet<'a>,
    status: PacketStatus,
) -> DecideInput<'a> {
    let facts = &explain.facts;
    DecideInput {
        packet: parsed,
        status,
        truncated: false,
        hook: facts.hook.unwrap_or(explain.hook) as u8,
        nfproto: nfproto_of(packet.version),
        length: packet.original,
        mark: facts.mark,
        iif: indexes::iif(&explain.indexes, &facts.iif),
        oif: indexes::oif(&explain.indexes, &facts.oif, &facts.iif),
        iifname: interface::value(&facts.iif),
        oifname: interface::value(&facts.oif),
        uid: facts.uid,
        gid: facts.gid,
        ct_state: facts.ct_state,
        ct_mark: facts.ct_mark,
        names: None,
        host_number: 0,
        alpn_bits: 0,
        refused: false,
        now_ns: explain.now_ns,
    }
}

/// Returns true if both engines (with indexes, and without) came to the same decision.
fn agree(explain: &Explain, a: &DecideOutcome, b: &DecideOutcome) -> bool {
    let (daemon, linear) = (&explain.daemon.compiled, &explain.linear.compiled);
    let same = (
        a.verdict,
        a.by,
        a.mark_set,
        a.mark,
        a.undecidable,
        a.undecided,
        a.read_names,
        a.reject,
    ) == (
        b.verdict,
        b.by,
        b.mark_set,
        b.mark,
        b.undecidable,
        b.undecided,
        b.read_names,
        b.reject,
    );
    same && match a.by {
        DecideBy::Rule => compile::rule_at(daemon, a.rule) == compile::rule_at(linear, b.rule),
        DecideBy::Policy => {
            compile::chain_at(daemon, a.chain) == compile::chain_at(linear, b.chain)
        }
        DecideBy::Default | DecideBy::Fail | DecideBy::Undecided | DecideBy::Connection => true,
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

/// Returns true if the counters of both engines are equal.
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

/// Returns true if the daemon would send a reply to a packet.
fn has_reply(packet: &Packet, status: PacketStatus, outcome: &DecideOutcome) -> bool {
    let mut reply = [0; reject::IPV6_MAX];
    !packet::is_malformed(status)
        && outcome
            .reject
            .is_some_and(|how| reject::build(&how, packet, &mut reply) > 0)
}

/// Returns an engine's policy in the form that decide needs.
fn policy(engine: &ExplainEngine) -> DecidePolicy<'_> {
    DecidePolicy {
        compiled: &engine.compiled,
        flow: &engine.flow,
        counters: &engine.counters,
    }
}

/// Returns a packet's metadata for the name readers. All checksums count as valid, because a capture does not show
/// which checksums the sender had left to the network card.
fn connection_input(explain: &Explain) -> ConnectionInput {
    ConnectionInput {
        checksum: ConnectionChecksum::NotReady,
        generation: GENERATION,
        asks_requests: compile::requirement(&explain.daemon.compiled).requests,
        now_ns: explain.now_ns,
        ..ConnectionInput::default()
    }
}

/// Follows a packet's connection, if the policy reads names.
fn follow_names(explain: &mut Explain, parsed: &Packet) -> Option<Named> {
    let how = connection_input(explain);
    let connections = explain.connections.as_mut()?;
    let compiled = &explain.daemon.compiled;
    Some(named::follow(connections, compiled, parsed, &how))
}

/// Learns addresses from an accepted packet, if the policy learns. Both engines share the addresses.
fn learn(explain: &mut Explain, parsed: &Packet) {
    let how = connection_input(explain);
    let Some(asked) = &mut explain.asked else {
        return;
    };
    let mut output = TeachOutput::default();
    teach::packet(asked, &explain.daemon.compiled, parsed, &how, &mut output);
}

/// Decides a packet by both engines. Fails if their decisions differ.
/// - number: number of the packet.
fn walk_both(
    explain: &mut Explain,
    settings: &DecideSettings,
    input: &DecideInput,
    number: u64,
) -> Result<DecideOutcome, Failure> {
    trace::clear(&mut explain.trace);
    let outcome = decide::packet(settings, Some(&policy(&explain.daemon)), input);
    let linear = policy(&explain.linear);
    let walked = decide::trace(settings, Some(&linear), input, &mut explain.trace);
    match agree(explain, &outcome, &walked) {
        true => Ok(outcome),
        false => Err(fail_disagreement(number)),
    }
}

/// Decides a packet by the policy. A packet with several DNS queries or HTTP requests is decided once for each query or
/// request, until one is not accepted. Stores the names of the last decision in `explain.shown`.
/// - named: in: names of the packet, or of its first query or request; out: those of the last decision. None if the
///   policy reads no names.
/// - number: number of the packet.
fn ask_policy(
    explain: &mut Explain,
    settings: &DecideSettings,
    input: &DecideInput,
    named: &mut Option<Named>,
    number: u64,
) -> Result<DecideOutcome, Failure> {
    loop {
        let mut told = *input;
        let mut names = explain.shown;
        if let (Some(named), Some(connections)) = (&named, &explain.connections) {
            names = *follow::names(connections, &named.followed);
            named::tell(named, &names, &mut told);
        }
        explain.shown = names;
        let outcome = walk_both(explain, settings, &told, number)?;
        let (Some(connections), Some(named)) = (&mut explain.connections, named.as_mut()) else {
            return Ok(outcome);
        };
        let compiled = &explain.daemon.compiled;
        if outcome.verdict != Verdict::Accept
            || !named::next(connections, compiled, GENERATION, named)
        {
            return Ok(outcome);
        }
    }
}

/// Decides a packet by both engines, and counts the result.
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
        undecided_verdict: options.undecided_verdict,
        unknown_open: options.fail_open[OptionsSituation::Unknown as usize],
    };
    let (mut whole, mut parsed) = (Packet::default(), Packet::default());
    packet::parse(packet.bytes, packet.original, &mut whole);
    let status = inspect(explain, packet, &mut parsed);
    let input = input_of(explain, packet, &parsed, status);
    let mut named = follow_names(explain, &parsed);
    let mut outcome = ask_policy(explain, &settings, &input, &mut named, packet.number)?;
    if let (Some(named), Some(connections)) = (&named, &mut explain.connections) {
        named::reset(connections, named, &parsed, &mut outcome);
        if named::refuses(named, &outcome) {
            let tells = outcome.verdict == Verdict::Reject;
            follow::deny(connections, &named.followed, GENERATION, tells);
        }
    }
    if outcome.verdict == Verdict::Accept {
        learn(explain, &parsed);
    }
    add_verdict(&mut explain.sums, outcome.verdict);
    Ok(Explained {
        number: packet.number,
        time_ns: packet.time_ns.wrapping_sub(explain.first_ns) as i64,
        packet: whole,
        status,
        outcome,
        has_reply: has_reply(&parsed, status, &outcome),
        recorded: None,
    })
}

/// Sets the metadata of the current packet from its comment, or from the options if it has no valid comment. Returns
/// the recorded verdict.
fn set_metadata(explain: &mut Explain, packet: &PcapPacket) -> Option<Verdict> {
    let read = packet.comment.map(comment::parse);
    if let Some(Some(comment)) = read {
        explain.facts = comment.facts;
        return comment.verdict;
    }
    explain.sums.damaged += u64::from(read.is_some());
    explain.facts = explain.options.explain.facts.clone();
    None
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
    let recorded = set_metadata(explain, packet);
    let mut explained = decide_both(explain, packet)?;
    explained.recorded = recorded;
    explain.sums.recorded += u64::from(recorded.is_some());
    explain.sums.different += u64::from(types::differs(&explained));
    put(
        out,
        &match explain.options.json {
            true => json::packet(explain, &explained),
            false => text::packet(explain, &explained),
        },
    );
    Ok(())
}

/// Writes a text. Ignores an error, because the reader may have closed the pipe.
fn put(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes());
}

fn explain_capture(explain: &mut Explain, out: &mut impl Write) -> Result<(), Failure> {
    let mut pcap = pcap::open(&explain.options.explain.capture)?;
    let mut number = 0;
    while let Some(packet) = pcap::next(&mut pcap)? {
        number = packet.number;
        explain_packet(explain, &packet, out)?;
        if explain.options.explain.capture == "-" {
            let _ = out.flush(); // the capture may be a pipe that stays open for hours
        }
    }
    explain.skipped = pcap.skipped;
    if !counters_agree(explain) {
        return Err(fail_disagreement(number));
    }
    put(
        out,
        &match explain.options.json {
            true => json::end(explain),
            false => text::end(explain),
        },
    );
    Ok(())
}

/// Creates the table of connections, if a policy reads names.
fn connections_make(options: &Options, requirement: &Requirement) -> Option<Box<Connections>> {
    let settings = options::connections(options);
    requirement.names.then(|| Box::new(follow::make(&settings)))
}

/// Creates the table of learned addresses for both engines, and the table of pending DNS queries, if the policy learns.
fn learned_of(explain: &mut Explain) {
    if !compile::requirement(&explain.daemon.compiled).learns {
        return;
    }
    let learned = Arc::new(learned::make(explain.options.learned));
    explain.asked = Some(asked::make());
    explain.daemon.compiled.learned = Some(Arc::clone(&learned));
    explain.linear.compiled.learned = Some(learned);
}

/// Checks that all recorded verdicts equal the policy's verdicts. Also fails if the capture has no recorded verdicts.
fn check_expected(explain: &Explain) -> Result<(), Failure> {
    let sums = &explain.sums;
    let capture = &explain.options.explain.capture;
    if sums.recorded == 0 {
        return Err(failure_set(
            LogExit::Usage,
            format_args!(
                "{capture}: no packet has a recorded verdict: record some with fwctl record"
            ),
        ));
    }
    if sums.different > 0 {
        return Err(failure_set(
            LogExit::Call,
            format_args!(
                "{capture}: {} of {} verdicts are not those that were recorded: change the policy, \
                 or record anew",
                sums.different, sums.recorded
            ),
        ));
    }
    Ok(())
}

fn explain_policy(options: &Options, policy: Policy) -> Result<(), Failure> {
    let mut options = options.clone();
    let indexes = Indexes::default();
    let daemon = engine_make(&policy, &indexes, false)?;
    options::provide(&mut options, compile::requirement(&daemon.compiled));
    let mut explain = Explain {
        options: &options,
        hook: first_hook(&policy),
        connections: connections_make(&options, compile::requirement(&daemon.compiled)),
        asked: None,
        daemon,
        linear: engine_make(&policy, &indexes, true)?,
        indexes,
        facts: OptionsFacts::default(),
        policy,
        sums: ExplainSums::default(),
        skipped: 0,
        first_ns: 0,
        now_ns: 0,
        shown: Names::default(),
        trace: Trace::default(),
    };
    learned_of(&mut explain);
    let mut out = BufWriter::new(io::stdout().lock());
    let result = explain_capture(&mut explain, &mut out);
    let _ = out.flush(); // the output comes before the error
    match options.explain.expect {
        true => result.and_then(|()| check_expected(&explain)),
        false => result,
    }
}

fn explain_all(options: &Options) -> Result<(), Failure> {
    let policy = parse::file(options.policy.as_deref().unwrap_or_default())?;
    explain_policy(options, policy)
}

fn code(result: &Result<(), Failure>) -> LogExit {
    result
        .as_ref()
        .map_or_else(log::fail, |()| LogExit::Stopped)
}

/// Explains all packets of options.explain.capture by a parsed policy. Returns the exit code.
pub fn run_policy(options: &Options, policy: Policy) -> LogExit {
    code(&explain_policy(options, policy))
}

/// Explains all packets of options.explain.capture by options.policy. Returns the exit code.
pub fn run(options: &Options) -> LogExit {
    code(&explain_all(options))
}
