// SPDX-License-Identifier: GPL-2.0-or-later
//! What a worker tells the policy of a packet, and what it does with the outcome besides the verdict:
//! the answers of `reject`, counting, and events.

use std::sync::Arc;

use crate::engine::decide;
use crate::engine::fields;
use crate::engine::flow::{self, DecidePolicy, FlowCounters};
use crate::engine::interface::{self, Interfaces};
use crate::engine::types::{DecideInput, DecideOutcome, DecideSettings};
use crate::options::{Options, OptionsConntrack, OptionsSituation};
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::requirement::Requirement;
use crate::policy::Reject;
use crate::queue::{QueuePacket, UNKNOWN};
use crate::ruleset::load::{self, Loaded};
use crate::worker::event::{self, EventRing};
use crate::worker::reject::{self, RejectResult};
use crate::worker::stats::{self, LiveStats};

/// Where rules/queue/conntrack-* put the state of a connection into a mark: NF_CT_STATE_BIT, and
/// NF_CT_STATE_UNTRACKED_BIT, moved up.
const CT_STATE_SHIFT: u32 = 24;
const CT_STATES: u32 = 0x4f;
/// enum ip_conntrack_info (linux/netfilter/nf_conntrack_common.h): from here on the same as from 0, of
/// a reply; and how many there are.
const IP_CT_IS_REPLY: u32 = 3;
const IP_CT_NUMBER: u32 = 5;

/// A policy as one worker asks it. The worker counts, any thread may read.
pub struct EvaluationSource {
    /// The policy, which all workers share.
    pub loaded: Arc<Loaded>,
    requirement: Requirement,
    /// The policy's counters.
    pub counters: FlowCounters,
}

/// What one worker has for evaluating.
pub struct Evaluation {
    /// If there is a policy.
    pub source: Option<Arc<EvaluationSource>>,
    /// The worker's ring of events.
    pub ring: EventRing,
    /// The sockets of replies, which all workers share. Open if the policy can ask for answers.
    reject: Option<Arc<reject::Reject>>,
    decide: DecideSettings,
    /// The interfaces by name, if the policy uses names.
    interfaces: Interfaces,
    /// --conntrack mark.
    ct_state_by_mark: bool,
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

pub fn init(
    options: &Options,
    source: Option<&Arc<EvaluationSource>>,
    reject: Option<&Arc<reject::Reject>>,
    ring: EventRing,
) -> Evaluation {
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
        interfaces: interface::init(interface::system),
        ct_state_by_mark: options.conntrack == OptionsConntrack::Mark,
        now_ns: 0,
    }
}

/// Whether there is a policy to ask.
pub fn has_policy(evaluation: &Evaluation) -> bool {
    evaluation.source.is_some()
}

/// Tells the policy the state of the packet's connection, as rules/queue/conntrack-* put it into the
/// mark, and hides those bits from it.
fn take_ct_state_of_mark(input: &mut DecideInput) {
    let state = input.mark >> CT_STATE_SHIFT & CT_STATES;
    input.mark &= !(CT_STATES << CT_STATE_SHIFT);
    input.ct_state = (state != 0).then_some(state);
}

/// Tells the policy the state of the packet's connection, as the kernel gives it (NF_CT_STATE_BIT).
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

/// What the policy knows of a packet.
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

/// The answer to a rejected packet, if one is due.
fn send_reply(
    evaluation: &Evaluation,
    packet: &QueuePacket,
    parsed: &Packet,
    status: PacketStatus,
    how: &Reject,
) -> RejectResult {
    let interface = match packet.indev {
        0 => packet.outdev,
        indev => indev,
    };
    match &evaluation.reject {
        Some(reject) if !packet::is_malformed(status) => {
            reject::reply(reject, how, parsed, interface)
        }
        _ => RejectResult::NotDue,
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
    let policy = evaluation.source.as_deref().map(|source| DecidePolicy {
        compiled: &source.loaded.compiled,
        flow: &source.loaded.flow,
        counters: &source.counters,
    });
    let outcome = decide::packet(&evaluation.decide, policy.as_ref(), &input);
    let (mut generation, mut needs_ct_state) = (0, false);
    if let Some(source) = evaluation.source.as_deref() {
        generation = source.loaded.generation;
        needs_ct_state = source.requirement.conntrack_state;
    }
    if needs_ct_state && input.ct_state.is_none() {
        stats::add(&stats.without_ct_state, 1);
    }
    if outcome.undecidable {
        stats::add(&stats.undecidable, 1);
    }
    if let Some(how) = &outcome.reject {
        let result = send_reply(evaluation, packet, parsed, status, how);
        if let Some(counter) = stats.replies.get(result as usize) {
            stats::add(counter, 1);
        }
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
    outcome
}
