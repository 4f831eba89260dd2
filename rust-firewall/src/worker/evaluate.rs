// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of a packet by the policy. Creates the policy's input, and executes the outcome except for the verdict:
//! sends replies of `reject`, and updates counters and events.

use std::sync::Arc;

use sys_bindings::NFQA_SKB_GSO;

use crate::connection::asked::{self, Asked};
use crate::connection::follow;
use crate::connection::listing::{self, Page};
use crate::connection::{ConnectionInput, Connections, INTERFACE_HOST, INTERFACE_UNKNOWN};
use crate::engine::compiled::CompileKernelSet;
use crate::engine::decide;
use crate::engine::fields;
use crate::engine::flow::{self, DecidePolicy, FlowCounters};
use crate::engine::interface::{self, Interfaces};
use crate::engine::named::{self, Named};
use crate::engine::teach::{self, TeachOutput};
use crate::engine::types::{DecideBy, DecideInput, DecideOutcome, DecideSettings, LOGS_MAX};
use crate::options::{self, Options, OptionsConntrack, OptionsSituation};
use crate::packet::verdict::{Verdict, VerdictRestated};
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::requirement::{self, Requirement};
use crate::policy::Reject;
use crate::queue::{QueuePacket, UNKNOWN};
use crate::ruleset::load::{self, Loaded};
use crate::worker::elements::{self, Elements, ElementsResult};
use crate::worker::event::{self, EventRing};
use crate::worker::pending;
use crate::worker::reject::{self, RejectResult};
use crate::worker::stage;
use crate::worker::stats::{self, LiveStats};

/// Position and mask of the connection state in the packet mark, where rules/queue/conntrack-* store it:
/// NF_CT_STATE_INVALID_BIT, NF_CT_STATE_BIT and NF_CT_STATE_UNTRACKED_BIT, shifted left.
const CT_STATE_SHIFT: u32 = 24;
const CT_STATES: u32 = 0x4f;
/// Values of enum ip_conntrack_info (linux/netfilter/nf_conntrack_common.h): the first value for packets in reply
/// direction (the values from it on repeat those from 0), and the number of values.
const IP_CT_IS_REPLY: u32 = 3;
const IP_CT_NUMBER: u32 = 5;
const NS_PER_MS: u64 = 1_000_000;
/// Interface index of the loopback device in every network namespace (LOOPBACK_IFINDEX, drivers/net/loopback.c).
const LOOPBACK: u32 = 1;
/// Netfilter hooks of enum nf_inet_hooks (linux/netfilter.h).
const NF_INET_PRE_ROUTING: u8 = 0;
const NF_INET_POST_ROUTING: u8 = 4;

/// Policy as one worker uses it, with the worker's counters: only the worker writes them, any thread may read them.
pub struct EvaluationSource {
    /// Policy, shared by all workers.
    pub loaded: Arc<Loaded>,
    /// Packet data that the policy needs.
    pub requirement: Requirement,
    /// Counters of the policy's rules, for this worker.
    pub counters: FlowCounters,
}

/// State of a worker that decides packets.
pub struct Evaluation {
    /// Policy by which the worker decides; None if there is no policy.
    pub source: Option<Arc<EvaluationSource>>,
    /// Event ring of the worker.
    pub ring: EventRing,
    /// Sockets for the replies of `reject`, shared by all workers; None without a policy, or if opening them failed.
    reject: Option<Arc<reject::Reject>>,
    decide: DecideSettings,
    /// Bits of the mark for the class (--stage); 0 = the policy's verdict is given to the kernel.
    stage: u32,
    /// Netlink socket that adds learned addresses to the kernel's sets (--stage). None: only this process stores them.
    elements: Option<Elements>,
    /// Bits of the mark that are set only if the server has acknowledged the final names (--settled); 0 = none.
    settled: u32,
    /// Cache of interface names, used if the policy reads interface names.
    interfaces: Interfaces,
    /// True if the connection state is in the packet mark (--conntrack mark).
    ct_state_by_mark: bool,
    /// Connections of the queue, if the worker's first policy reads names or learns addresses.
    pub connections: Option<Box<Connections>>,
    /// Pending DNS queries of clients, if the worker's first policy reads names or learns addresses.
    asked: Option<Asked>,
    /// Counters of connections (`named::results`) when their increases were last added to the worker's counters.
    counted: [u64; named::RESULT_COUNT],
    /// Checksum with which the kernel must get the last packet back; None if not needed, or if the packet was dropped.
    pub restated: Option<VerdictRestated>,
    /// Time at which the current batch was received (CLOCK_MONOTONIC).
    pub now_ns: u64,
}

/// Creates a worker's source: a reference to the policy, which all workers share, and zeroed counters of its own.
pub fn source_make(loaded: &Arc<Loaded>) -> Arc<EvaluationSource> {
    Arc::new(EvaluationSource {
        loaded: Arc::clone(loaded),
        requirement: *load::requirement(loaded),
        counters: flow::counters_make(&loaded.compiled),
    })
}

/// Creates the table of a worker's connections.
fn make_connections(options: &Options) -> Box<Connections> {
    Box::new(follow::make(&options::connections(options)))
}

/// Creates the state of a worker that decides packets.
/// - reject: sockets for the replies of `reject`; needed if the policy rejects.
/// - elements: socket for the kernel's sets, with --stage.
pub fn init(
    options: &Options,
    source: Option<&Arc<EvaluationSource>>,
    reject: Option<&Arc<reject::Reject>>,
    elements: Option<Elements>,
    ring: EventRing,
) -> Evaluation {
    // Both tables are created, even if this policy needs only one: a later policy may need the other table.
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
        elements,
        settled: options.settled,
        interfaces: interface::init(interface::system),
        ct_state_by_mark: options.conntrack == OptionsConntrack::Mark,
        connections: names.then(|| make_connections(options)),
        asked: names.then(asked::make),
        counted: [0; named::RESULT_COUNT],
        restated: None,
        now_ns: 0,
    }
}

/// Returns true if there is a policy.
pub fn has_policy(evaluation: &Evaluation) -> bool {
    evaluation.source.is_some()
}

/// Fills in the connection state from the bits of the packet mark in which rules/queue/conntrack-* store it. Clears
/// these bits in the policy's input.
fn take_ct_state_of_mark(input: &mut DecideInput) {
    let state = input.mark >> CT_STATE_SHIFT & CT_STATES;
    input.mark &= !(CT_STATES << CT_STATE_SHIFT);
    input.ct_state = (state != 0).then_some(state);
}

/// Fills in the connection state from the kernel's attribute NFQA_CT_INFO. A packet without a
/// connection (invalid or untracked) has no state.
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

/// Returns the policy's input for a packet, without the names of its connection.
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

/// Returns the index of the first interface, or of the second interface if the first index is 0.
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

/// Sends the replies to a rejected packet, and counts the results. A packet may get no reply (RejectResult::NotDue).
/// - expected: sequence number of a RST to the packet's destination; None = only the packet's source gets a reply.
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

/// Returns the index of the interface at which a packet arrived; INTERFACE_HOST if this host sent it. In the
/// postrouting hook, without an index, returns INTERFACE_UNKNOWN: kernels before Linux 5.6 never report it there.
fn source_of(packet: &QueuePacket) -> u32 {
    match packet.indev {
        0 if packet.hook == NF_INET_POST_ROUTING => INTERFACE_UNKNOWN,
        LOOPBACK => INTERFACE_HOST,
        indev => indev,
    }
}

/// Returns the index of a packet's output interface, INTERFACE_HOST if this host is the destination, or
/// INTERFACE_UNKNOWN before routing.
fn sink_of(packet: &QueuePacket) -> u32 {
    match packet.outdev {
        _ if packet.hook == NF_INET_PRE_ROUTING => INTERFACE_UNKNOWN,
        LOOPBACK => INTERFACE_HOST,
        outdev => outdev,
    }
}

/// Returns the metadata of a packet that the parsers of names need.
fn connection_input(
    source: &EvaluationSource,
    packet: &QueuePacket,
    now_ns: u64,
) -> ConnectionInput {
    ConnectionInput {
        checksum: pending::state(packet.skb_info),
        segmented: packet.skb_info & NFQA_SKB_GSO != 0,
        source_interface: source_of(packet),
        sink_interface: sink_of(packet),
        generation: source.loaded.generation.into(),
        asks_requests: source.requirement.requests,
        is_directed: false,
        now_ns,
    }
}

/// Updates the state of a packet's connection, and reads its names. Returns None if the policy reads no names.
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

/// Context for learning addresses from one packet.
struct Lesson<'a> {
    elements: &'a Elements,
    stats: &'a LiveStats,
    now_ns: u64,
    /// False if an address of the packet was not added to the kernel's set.
    is_added: bool,
}

/// Adds learned addresses to the kernel's set, and counts the result.
/// - end_ns: time at which the addresses may expire.
fn add_elements(lesson: &mut Lesson, set: &CompileKernelSet, addresses: &[u128], end_ns: u64) {
    let left_ms = (end_ns - lesson.now_ns) / NS_PER_MS;
    let (count, added) = elements::add(lesson.elements, set, addresses, left_ms, lesson.now_ns);
    let result = added.map_or(ElementsResult::Failed, |()| ElementsResult::Added);
    if let Some(counter) = lesson.stats.elements.get(result as usize) {
        stats::add(counter, count);
    }
    lesson.is_added &= result == ElementsResult::Added;
}

/// Learns from an accepted DNS packet, if the policy learns: stores the question of a query, or the addresses of an
/// answer. Returns false if an address was not added to the kernel's set (--stage).
fn learn(
    evaluation: &mut Evaluation,
    stats: &LiveStats,
    packet: &QueuePacket,
    parsed: &Packet,
) -> bool {
    let (Some(source), Some(asked)) = (&evaluation.source, &mut evaluation.asked) else {
        return true;
    };
    let now_ns = evaluation.now_ns;
    let mut how = connection_input(source, packet, now_ns);
    how.is_directed = evaluation.stage != 0;
    let mut lesson = evaluation.elements.as_ref().map(|elements| Lesson {
        elements,
        stats,
        now_ns,
        is_added: true,
    });
    let mut listener = |set: &CompileKernelSet, addresses: &[u128], end_ns: u64| {
        if let Some(lesson) = &mut lesson {
            add_elements(lesson, set, addresses, end_ns);
        }
    };
    let mut output = TeachOutput {
        listener: Some(&mut listener),
        ..TeachOutput::default()
    };
    teach::packet(asked, &source.loaded.compiled, parsed, &how, &mut output);
    for (counter, count) in stats.answers.iter().zip(output.results) {
        if count > 0 {
            stats::add(counter, count);
        }
    }
    lesson.is_none_or(|lesson| lesson.is_added)
}

/// Returns true if the policy learns addresses from DNS answers.
fn learns(evaluation: &Evaluation) -> bool {
    let source = evaluation.source.as_ref();
    source.is_some_and(|source| source.requirement.learns)
}

/// Learns addresses from a packet that the kernel's rules have accepted (--stage). Accepts the packet with its mark
/// unchanged. Drops it if an address was not added to the kernel's set: otherwise a client would get an address that is
/// not in the set.
fn learn_only(
    evaluation: &mut Evaluation,
    stats: &LiveStats,
    packet: &QueuePacket,
    parsed: &Packet,
) -> DecideOutcome {
    let is_learned = !learns(evaluation) || learn(evaluation, stats, packet, parsed);
    DecideOutcome {
        verdict: if is_learned {
            Verdict::Accept
        } else {
            Verdict::Drop
        },
        by: DecideBy::Default,
        rule: 0,
        chain: 0,
        mark_set: false,
        mark: packet.mark,
        reject: None,
        undecidable: false,
        undecided: false,
        read_names: false,
        log_count: 0,
        logs: [0; LOGS_MAX],
    }
}

/// Increments the counters that apply to a packet: without_ct_state (the policy reads the connection state, the packet
/// has none), undecidable (the rules gave no verdict, and a rule reads bytes that were not copied), undecided (the
/// rules gave no verdict, and a rule reads a name that is not known yet or unreadable). Does not count the verdict.
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

/// Returns the policy's input with the connection's names added, if the policy reads names.
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

/// Returns true if the names of a packet's TCP connection are final, and the server has acknowledged the bytes that
/// they were read from. Always false for UDP, DNS and HTTP.
fn is_settled(named: Option<&Named>, connections: Option<&Connections>) -> bool {
    let (Some(named), Some(connections)) = (named, connections) else {
        return false;
    };
    follow::is_settled(connections, &named.followed)
}

/// Returns true if the packet comes from a QUIC server that has received the complete ClientHello. Returns false for
/// TCP, where `is_settled` is used instead.
fn is_answer(named: Option<&Named>, connections: Option<&Connections>) -> bool {
    let (Some(named), Some(connections)) = (named, connections) else {
        return false;
    };
    follow::is_answer(connections, &named.followed)
}

/// Decides a packet by the policy, or without a policy by --default and --fail. A packet with several DNS queries or
/// HTTP requests is decided once per query or request, until one of these is not accepted.
/// - named: None if the policy reads no names.
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
    // Mark after the packet's previous query or request.
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

/// Handles the kernel's RST to the sender of a packet that the kernel's rules have refused: accepts this RST, and sends
/// another RST to the destination of the refused packet, if its connection is followed.
fn refuse(
    evaluation: &mut Evaluation,
    stats: &LiveStats,
    packet: &QueuePacket,
    input: &DecideInput,
    outcome: &mut DecideOutcome,
) {
    let source = evaluation.source.as_deref();
    let generation = source.map_or(0, |source| source.loaded.generation);
    let connections = evaluation.connections.as_mut();
    let expected = connections.and_then(|all| follow::refuse(all, input.packet, generation.into()));
    if let (Some(reject), Some(expected)) = (&evaluation.reject, expected) {
        let interface = either(packet.indev, packet.outdev);
        let result = reject::reset_sender(reject, input.packet, expected, interface);
        count_reply(stats, result);
    }
    stage::pass(evaluation.stage, input, outcome);
}

/// Decides a packet, sends replies, updates all counters but that of the verdict, and stores an event if a consumer
/// wants it. Stores no event for a packet from which addresses are only learned (--stage). Returns the outcome.
pub fn packet(
    evaluation: &mut Evaluation,
    stats: &LiveStats,
    packet: &QueuePacket,
    parsed: &Packet,
    status: PacketStatus,
) -> DecideOutcome {
    if stage::teaches(evaluation.stage, packet.mark) {
        return learn_only(evaluation, stats, packet, parsed);
    }
    let input = input_of(evaluation, packet, parsed, status);
    let source = evaluation.source.as_deref();
    let connections = evaluation.connections.as_mut();
    let mut named = follow_names(connections, source, packet, parsed, input.now_ns);
    let mut outcome = ask_policy(evaluation, &input, &mut named);
    if stage::is_refused(evaluation.stage, &outcome) {
        refuse(evaluation, stats, packet, &input, &mut outcome);
    }
    let source = evaluation.source.as_deref();
    let connections = evaluation.connections.as_deref();
    let input = told(&input, named.as_ref(), connections);
    count(stats, source, &input, &outcome);
    let generation = source.map_or(0, |source| source.loaded.generation);
    let mut expected = None;
    if let (Some(named), Some(connections)) = (&named, &evaluation.connections) {
        expected = named::reset(connections, named, parsed, &mut outcome);
        evaluation.restated = pending::restated(connections, &named.followed, packet, parsed)
            .filter(|_| outcome.verdict == Verdict::Accept);
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
    // With --stage the kernel's rules may still drop the packet.
    if evaluation.stage == 0 && learns(evaluation) && outcome.verdict == Verdict::Accept {
        learn(evaluation, stats, packet, parsed);
    }
    outcome
}

/// Fills in a page of the connection listing; page.from is the slot at which the page begins.
pub fn list(evaluation: &Evaluation, now_ns: u64, page: &mut Page) {
    let source = evaluation.source.as_ref();
    let generation = source.map_or(0, |source| source.loaded.generation);
    if let Some(connections) = &evaluation.connections {
        listing::fill(connections, generation.into(), now_ns, page);
    }
}

/// Adds to the worker's counters the increases of the counters of connections (`named::results`) since the last call.
/// Returns the current number of followed connections.
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
