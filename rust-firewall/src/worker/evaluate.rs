// SPDX-License-Identifier: GPL-2.0-or-later
//! What a worker tells the policy of a packet, and what it does with the outcome besides the verdict:
//! the answers of `reject`, counting, and events.

use std::sync::Arc;

use sys_bindings::{NFQA_SKB_CSUMNOTREADY, NFQA_SKB_CSUM_NOTVERIFIED, NFQA_SKB_GSO};

use crate::connection::asked::{self, Asked};
use crate::connection::follow;
use crate::connection::listing::{self, Page};
use crate::connection::{
    ConnectionChecksum, ConnectionInput, Connections, INTERFACE_HOST, INTERFACE_UNKNOWN,
};
use crate::engine::decide;
use crate::engine::fields;
use crate::engine::flow::{self, DecidePolicy, FlowCounters};
use crate::engine::interface::{self, Interfaces};
use crate::engine::named::{self, Named};
use crate::engine::teach::{self, TeachResults};
use crate::engine::types::{DecideInput, DecideOutcome, DecideSettings};
use crate::options::{self, Options, OptionsConntrack, OptionsSituation};
use crate::packet::verdict::Verdict;
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::requirement::{self, Requirement};
use crate::policy::Reject;
use crate::queue::{QueuePacket, UNKNOWN};
use crate::ruleset::load::{self, Loaded};
use crate::worker::event::{self, EventRing};
use crate::worker::reject::{self, RejectResult};
use crate::worker::stage;
use crate::worker::stats::{self, LiveStats};

/// Bits of the mark in which rules/queue/conntrack-* put the state of a connection: NF_CT_STATE_BIT, and
/// NF_CT_STATE_UNTRACKED_BIT, moved up.
const CT_STATE_SHIFT: u32 = 24;
const CT_STATES: u32 = 0x4f;
/// enum ip_conntrack_info (linux/netfilter/nf_conntrack_common.h): from here on the same as from 0, of
/// a reply; and how many there are.
const IP_CT_IS_REPLY: u32 = 3;
const IP_CT_NUMBER: u32 = 5;
/// The loopback device's interface, in every network namespace (LOOPBACK_IFINDEX, drivers/net/loopback.c).
const LOOPBACK: u32 = 1;
/// enum nf_inet_hooks (linux/netfilter.h).
const NF_INET_PRE_ROUTING: u8 = 0;
const NF_INET_POST_ROUTING: u8 = 4;

/// A policy as one worker asks it. The worker counts, any thread may read.
pub struct EvaluationSource {
    /// The policy, which all workers share.
    pub loaded: Arc<Loaded>,
    requirement: Requirement,
    /// The policy's counters.
    pub counters: FlowCounters,
}

/// State of one worker's evaluation.
pub struct Evaluation {
    /// If there is a policy.
    pub source: Option<Arc<EvaluationSource>>,
    /// The worker's ring of events.
    pub ring: EventRing,
    /// The sockets of replies, which all workers share. Open if the policy can ask for answers.
    reject: Option<Arc<reject::Reject>>,
    decide: DecideSettings,
    /// --stage; 0 = the policy decides.
    stage: u32,
    /// --settled.
    settled: u32,
    /// The interfaces by name, if the policy uses names.
    interfaces: Interfaces,
    /// --conntrack mark.
    ct_state_by_mark: bool,
    /// The connections of the queue, and the questions that wait for an answer, if the policy reads names.
    pub connections: Option<Box<Connections>>,
    asked: Option<Asked>,
    /// Figures of connections that the counters already include.
    counted: [u64; named::RESULT_COUNT],
    /// When the batch at hand was received.
    pub now_ns: u64,
}

pub fn source_make(loaded: &Arc<Loaded>) -> Arc<EvaluationSource> {
    Arc::new(EvaluationSource {
        loaded: Arc::clone(loaded),
        requirement: *load::requirement(loaded),
        counters: flow::counters_make(&loaded.compiled),
    })
}

/// Room for the connections of a worker.
fn make_connections(options: &Options) -> Box<Connections> {
    Box::new(follow::make(&options::connections(options)))
}

pub fn init(
    options: &Options,
    source: Option<&Arc<EvaluationSource>>,
    reject: Option<&Arc<reject::Reject>>,
    ring: EventRing,
) -> Evaluation {
    // A later policy may read them to decide where this one does to learn, or the other way round.
    let names = source.is_some_and(|source| requirement::reads_names(&source.requirement));
    Evaluation {
        source: source.cloned(),
        ring,
        reject: reject.cloned(),
        decide: DecideSettings {
            default_verdict: options.default_verdict,
            malformed_open: options.fail_open[OptionsSituation::Malformed as usize],
            truncated_open: options.fail_open[OptionsSituation::Truncated as usize],
            malformed_by_policy: options.malformed_by_policy,
            undecided_verdict: options.undecided_verdict,
            unknown_open: options.fail_open[OptionsSituation::Unknown as usize],
        },
        stage: options.stage,
        settled: options.settled,
        interfaces: interface::init(interface::system),
        ct_state_by_mark: options.conntrack == OptionsConntrack::Mark,
        connections: names.then(|| make_connections(options)),
        asked: names.then(asked::make),
        counted: [0; named::RESULT_COUNT],
        now_ns: 0,
    }
}

/// Whether there is a policy to ask.
pub fn has_policy(evaluation: &Evaluation) -> bool {
    evaluation.source.is_some()
}

/// Fills in the state of the packet's connection from the mark, into which rules/queue/conntrack-* put it: the
/// mark, and hides those bits from it.
fn take_ct_state_of_mark(input: &mut DecideInput) {
    let state = input.mark >> CT_STATE_SHIFT & CT_STATES;
    input.mark &= !(CT_STATES << CT_STATE_SHIFT);
    input.ct_state = (state != 0).then_some(state);
}

/// Fills in the state of the packet's connection from the kernel's attribute (NF_CT_STATE_BIT).
/// A packet that belongs to no connection, be it invalid or untracked, has no state.
fn take_ct_info(ct_info: u32, input: &mut DecideInput) {
    input.ct_state = (ct_info < IP_CT_NUMBER).then_some(1 << (ct_info % IP_CT_IS_REPLY + 1));
}

fn nfproto_of(ethertype: u16) -> u8 {
    match libc::c_int::from(ethertype) {
        libc::ETH_P_IP => fields::IPV4,
        libc::ETH_P_IPV6 => fields::IPV6,
        _ => 0,
    }
}

/// Policy input for a packet.
fn input_of<'a>(
    evaluation: &mut Evaluation,
    packet: &QueuePacket,
    parsed: &'a Packet<'a>,
    status: PacketStatus,
) -> DecideInput<'a> {
    let known = |id| (id != UNKNOWN).then_some(id);
    let now_ns = evaluation.now_ns;
    let mut input = DecideInput {
        packet: parsed,
        status,
        truncated: packet.truncated,
        hook: packet.hook,
        nfproto: nfproto_of(packet.ethertype),
        length: packet.original_bytes,
        mark: packet.mark,
        iif: packet.indev,
        oif: packet.outdev,
        iifname: 0,
        oifname: 0,
        uid: known(packet.uid),
        gid: known(packet.gid),
        ct_state: None,
        ct_mark: packet.has_ct_mark.then_some(packet.ct_mark),
        names: None,
        host_number: 0,
        alpn_bits: 0,
        refused: false,
        now_ns,
    };
    if evaluation.ct_state_by_mark {
        take_ct_state_of_mark(&mut input);
    } else {
        take_ct_info(packet.ct_info, &mut input);
    }
    if evaluation
        .source
        .as_ref()
        .is_some_and(|source| source.requirement.interface_names)
    {
        input.iifname = interface::name(&mut evaluation.interfaces, packet.indev, now_ns);
        input.oifname = interface::name(&mut evaluation.interfaces, packet.outdev, now_ns);
    }
    input
}

/// The first of two interfaces that there is.
fn either(first: u32, second: u32) -> u32 {
    match first {
        0 => second,
        first => first,
    }
}

fn count_reply(stats: &LiveStats, result: RejectResult) {
    if let Some(counter) = stats.replies.get(result as usize) {
        stats::add(counter, 1);
    }
}

/// Sends the answer to a rejected packet, if one is due. expected: the sequence number of a RST to the end that the packet was sent to.
fn send_replies(
    reject: Option<&reject::Reject>,
    stats: &LiveStats,
    packet: &QueuePacket,
    parsed: &Packet,
    status: PacketStatus,
    how: &Reject,
    expected: Option<u32>,
) {
    let Some(reject) = reject.filter(|_| !packet::is_malformed(status)) else {
        count_reply(stats, RejectResult::NotDue);
        return;
    };
    let interface = either(packet.indev, packet.outdev);
    count_reply(stats, reject::reply(reject, how, parsed, interface));
    if let Some(expected) = expected {
        let interface = either(packet.outdev, packet.indev);
        let result = reject::reset_receiver(reject, parsed, expected, interface);
        count_reply(stats, result);
    }
}

/// Checksum state of a packet, as the kernel reports it.
fn checksum_of(skb_info: u32) -> ConnectionChecksum {
    match skb_info {
        info if info & NFQA_SKB_CSUMNOTREADY != 0 => ConnectionChecksum::NotReady,
        info if info & NFQA_SKB_CSUM_NOTVERIFIED != 0 => ConnectionChecksum::Unverified,
        _ => ConnectionChecksum::Verified,
    }
}

/// The interface that a packet came in by. Behind the choice of a route kernels before Linux 5.6 tell none.
fn source_of(packet: &QueuePacket) -> u32 {
    match packet.indev {
        0 if packet.hook == NF_INET_POST_ROUTING => INTERFACE_UNKNOWN,
        LOOPBACK => INTERFACE_HOST,
        indev => indev,
    }
}

/// The interface that a packet leaves by, known once a route was chosen.
fn sink_of(packet: &QueuePacket) -> u32 {
    match packet.outdev {
        _ if packet.hook == NF_INET_PRE_ROUTING => INTERFACE_UNKNOWN,
        LOOPBACK => INTERFACE_HOST,
        outdev => outdev,
    }
}

/// Packet metadata for the readers of names.
fn connection_input(
    source: &EvaluationSource,
    packet: &QueuePacket,
    now_ns: u64,
) -> ConnectionInput {
    ConnectionInput {
        checksum: checksum_of(packet.skb_info),
        segmented: packet.skb_info & NFQA_SKB_GSO != 0,
        source_interface: source_of(packet),
        sink_interface: sink_of(packet),
        generation: source.loaded.generation.into(),
        asks_requests: source.requirement.requests,
        now_ns,
    }
}

/// The names of a packet's connection, if the policy reads any.
fn follow_names(
    connections: Option<&mut Box<Connections>>,
    source: Option<&EvaluationSource>,
    packet: &QueuePacket,
    parsed: &Packet,
    now_ns: u64,
) -> Option<Named> {
    let source = source.filter(|source| source.requirement.names)?;
    let how = connection_input(source, packet, now_ns);
    let compiled = &source.loaded.compiled;
    Some(named::follow(connections?, compiled, parsed, &how))
}

/// Learns from a packet that is accepted, if the policy does.
fn learn(evaluation: &mut Evaluation, stats: &LiveStats, packet: &QueuePacket, parsed: &Packet) {
    let (Some(source), Some(asked)) = (&evaluation.source, &mut evaluation.asked) else {
        return;
    };
    let how = connection_input(source, packet, evaluation.now_ns);
    let mut results = TeachResults::default();
    teach::packet(asked, &source.loaded.compiled, parsed, &how, &mut results);
    for (counter, count) in stats.answers.iter().zip(results) {
        if count > 0 {
            stats::add(counter, count);
        }
    }
}

/// Counts what came of a packet beside its verdict.
fn count(
    stats: &LiveStats,
    source: Option<&EvaluationSource>,
    input: &DecideInput,
    outcome: &DecideOutcome,
) {
    let needs_ct_state = source.is_some_and(|source| source.requirement.conntrack_state);
    if needs_ct_state && input.ct_state.is_none() {
        stats::add(&stats.without_ct_state, 1);
    }
    if outcome.undecidable {
        stats::add(&stats.undecidable, 1);
    }
    if outcome.undecided {
        stats::add(&stats.undecided, 1);
    }
}

/// Policy input for a packet, with its names if the policy reads any.
fn told<'a>(
    input: &DecideInput<'a>,
    named: Option<&Named>,
    connections: Option<&'a Connections>,
) -> DecideInput<'a> {
    let mut told = *input;
    if let (Some(named), Some(connections)) = (named, connections) {
        let names = follow::names(connections, &named.followed);
        named::tell(named, names, &mut told);
    }
    told
}

/// Whether the names of a packet's connection can't change any more.
fn is_settled(named: Option<&Named>, connections: Option<&Connections>) -> bool {
    let (Some(named), Some(connections)) = (named, connections) else {
        return false;
    };
    follow::is_settled(connections, &named.followed)
}

/// Whether a packet is a server's, which has answered what decided its connection.
fn is_answer(named: Option<&Named>, connections: Option<&Connections>) -> bool {
    let (Some(named), Some(connections)) = (named, connections) else {
        return false;
    };
    follow::is_answer(connections, &named.followed)
}

/// Decides by the policy, or by the default without one. A packet with several queries of DNS or requests of HTTP is decided
/// by each, until one is not accepted.
/// - named: None: the policy reads no names.
fn ask_policy(
    evaluation: &mut Evaluation,
    input: &DecideInput,
    named: &mut Option<Named>,
) -> DecideOutcome {
    let source = evaluation.source.as_deref();
    let policy = source.map(|source| DecidePolicy {
        compiled: &source.loaded.compiled,
        flow: &source.loaded.flow,
        counters: &source.counters,
    });
    // The mark of the query before.
    let mut before = None;
    loop {
        let told = told(input, named.as_ref(), evaluation.connections.as_deref());
        let mut outcome = decide::packet(&evaluation.decide, policy.as_ref(), &told);
        let is_asked = evaluation.stage != 0 || evaluation.settled != 0;
        let is_settled = is_asked && is_settled(named.as_ref(), evaluation.connections.as_deref());
        stage::withhold(evaluation.settled, is_settled, &mut outcome);
        if evaluation.stage != 0 {
            let is_final =
                is_settled || is_answer(named.as_ref(), evaluation.connections.as_deref());
            stage::tell(evaluation.stage, &told, is_final, before, &mut outcome);
            before = Some(outcome.mark);
        }
        let (Some(source), Some(connections), Some(named)) =
            (source, &mut evaluation.connections, named.as_mut())
        else {
            return outcome;
        };
        let generation = source.loaded.generation.into();
        let compiled = &source.loaded.compiled;
        if outcome.verdict != Verdict::Accept
            || !named::next(connections, compiled, generation, named)
        {
            return outcome;
        }
    }
}

/// Lets the policy decide, or what holds without one; sends the answer of a reject, counts what came
/// of it, and notes it if somebody wants to know.
pub fn packet(
    evaluation: &mut Evaluation,
    stats: &LiveStats,
    packet: &QueuePacket,
    parsed: &Packet,
    status: PacketStatus,
) -> DecideOutcome {
    let input = input_of(evaluation, packet, parsed, status);
    let source = evaluation.source.as_deref();
    let connections = evaluation.connections.as_mut();
    let mut named = follow_names(connections, source, packet, parsed, input.now_ns);
    let mut outcome = ask_policy(evaluation, &input, &mut named);
    let source = evaluation.source.as_deref();
    let connections = evaluation.connections.as_deref();
    let input = told(&input, named.as_ref(), connections);
    count(stats, source, &input, &outcome);
    let generation = source.map_or(0, |source| source.loaded.generation);
    let mut expected = None;
    if let (Some(named), Some(connections)) = (&named, &evaluation.connections) {
        expected = named::reset(connections, named, parsed, &mut outcome);
    }
    if let Some(how) = &outcome.reject {
        let reject = evaluation.reject.as_deref();
        send_replies(reject, stats, packet, parsed, status, how, expected);
    }
    if event::wanted(&evaluation.ring, status, packet.truncated, &outcome) {
        event::note(
            &mut evaluation.ring,
            generation,
            packet.ethertype,
            &input,
            &outcome,
        );
    }
    let refused = named.filter(|named| named::refuses(named, &outcome));
    if let (Some(Named { followed, .. }), Some(connections)) =
        (refused, &mut evaluation.connections)
    {
        let tells = outcome.verdict == Verdict::Reject;
        follow::deny(connections, &followed, generation.into(), tells);
    }
    let learns = source.is_some_and(|source| source.requirement.learns);
    if learns && outcome.verdict == Verdict::Accept {
        learn(evaluation, stats, packet, parsed);
    }
    outcome
}

/// Fills in a page of the connections.
pub fn list(evaluation: &Evaluation, now_ns: u64, page: &mut Page) {
    let source = evaluation.source.as_ref();
    let generation = source.map_or(0, |source| source.loaded.generation);
    if let Some(connections) = &evaluation.connections {
        listing::fill(connections, generation.into(), now_ns, page);
    }
}

/// Adds what has come of connections since it was last called to the counters. Returns how many there are.
pub fn count_connections(evaluation: &mut Evaluation, stats: &LiveStats) -> u32 {
    let Some(connections) = &evaluation.connections else {
        return 0;
    };
    let now = named::results(connections);
    for ((counter, now), before) in stats.connections.iter().zip(now).zip(evaluation.counted) {
        if now > before {
            stats::add(counter, now - before);
        }
    }
    evaluation.counted = now;
    follow::count(connections)
}
