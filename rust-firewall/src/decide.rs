// SPDX-License-Identifier: GPL-2.0-or-later
//! From what a packet is to what happens with it. No system call, no allocation, no panic; all state
//! is in flow.
#![deny(clippy::indexing_slicing)]

use crate::compile::{CompilePlace, Compiled, FAMILIES};
use crate::fields::{IPV4, IPV6};
use crate::flow::{Flow, FlowCounters};
use crate::packet::{self, Packet, PacketStatus};
use crate::policy::{Field, Reject, Verdict as Leads, KEY_FIELDS_MAX};
use crate::verdict::Verdict;
use crate::walk;

#[derive(Clone, Copy, Debug)]
pub struct DecideSettings {
    /// --default: `Accept` or `Drop`.
    pub default_verdict: Verdict,
    /// --fail malformed=open.
    pub malformed_open: bool,
    /// --fail truncated=open.
    pub truncated_open: bool,
    /// --malformed policy.
    pub malformed_by_policy: bool,
}

/// A packet and what the kernel tells of it.
#[derive(Clone, Copy, Debug)]
pub struct DecideInput<'a> {
    /// As `packet::parse` filled it in.
    pub packet: &'a Packet<'a>,
    pub status: PacketStatus,
    /// The netlink message did not fit its slot: nothing else is looked at.
    pub truncated: bool,
    /// A `policy::Hook`.
    pub hook: u8,
    /// NFPROTO_IPV4, NFPROTO_IPV6; 0 = as the packet's version says.
    pub nfproto: u8,
    /// Bytes of the packet in the kernel.
    pub length: u32,
    /// 0 = none.
    pub mark: u32,
    /// Interface index; 0 = none.
    pub iif: u32,
    /// Interface index; 0 = none.
    pub oif: u32,
    /// As a value of `Type::Ifname`; 0 = none.
    pub iifname: u128,
    /// As a value of `Type::Ifname`; 0 = none.
    pub oifname: u128,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// As a value of `Type::CtState`.
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
    /// Of a clock that doesn't go back.
    pub now_ns: u64,
}

/// Log statements that an outcome names.
pub const LOGS_MAX: usize = 8;

/// What gave the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideBy {
    /// `DecideOutcome::rule`
    Rule,
    /// Of the base chain `DecideOutcome::chain`.
    Policy,
    /// No base chain sees the packet, or there is no policy.
    Default,
    /// The --fail mode.
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecideOutcome {
    /// `Accept`, `Drop` or `Reject`.
    pub verdict: Verdict,
    /// After several base chains: that of the last.
    pub by: DecideBy,
    /// By a rule: for `compile::rule_at`.
    pub rule: u32,
    /// By a rule or a policy: the chain, for `compile::chain_at`.
    pub chain: u32,
    /// A rule set the mark, be it to what it was.
    pub mark_set: bool,
    /// As the rules left it.
    pub mark: u32,
    /// Of `Verdict::Reject`: what to answer.
    pub reject: Option<Reject>,
    /// By --fail: cut before what the policy reads.
    pub undecidable: bool,
    /// Log statements passed.
    pub log_count: u32,
    /// The first of them, for `compile::log_at`.
    pub logs: [u32; LOGS_MAX],
}

/// How far a packet came in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideWhy {
    /// Every statement held.
    Held,
    /// A match or map: the key's fields have the values of the step.
    Differs,
    /// A match or map: a field is missing.
    Missing,
    /// The limit did not let it through.
    Limit,
    /// The quota did not let it through.
    Quota,
    /// The rule is for packets of another kind (`answer`).
    NoAnswer,
}

/// One rule of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecideStep {
    /// statement: the one that did not hold; their count with `Held`.
    pub place: CompilePlace,
    /// Jumps and gotos taken on the way here.
    pub depth: u32,
    pub why: DecideWhy,
    /// With `Missing`.
    pub missing: Option<Field>,
    /// With `Differs`.
    pub values_count: u32,
    pub values: [u128; KEY_FIELDS_MAX],
    /// What the rule ended with (of its own, of its vmap); `Drop` for a reject.
    pub verdict: Option<Leads>,
}

/// Who listens to a walk.
pub trait DecideRecorder {
    /// Whether there is anybody.
    const LISTENS: bool = true;
    /// A chain is entered.
    fn chain(&mut self, chain: CompilePlace, depth: u32);
    /// A rule has been walked.
    fn rule(&mut self, step: &DecideStep);
}

/// Nobody does.
struct Deaf;

impl DecideRecorder for Deaf {
    const LISTENS: bool = false;
    fn chain(&mut self, _chain: CompilePlace, _depth: u32) {}
    fn rule(&mut self, _step: &DecideStep) {}
}

/// A policy with what outlives a packet.
#[derive(Clone, Copy, Debug)]
pub struct DecidePolicy<'a> {
    pub compiled: &'a Compiled,
    pub flow: &'a Flow,
    /// Of the calling thread.
    pub counters: &'a FlowCounters,
}

fn verdict_of(open: bool) -> Verdict {
    if open {
        Verdict::Accept
    } else {
        Verdict::Drop
    }
}

/// The verdict for a packet without a policy: --default for `Ok` and `Cut`, the --fail modes (accept
/// if open, drop if closed) for malformed and truncated ones.
/// truncated: the netlink message did not fit its slot; status is not looked at then.
pub fn decide(settings: &DecideSettings, status: PacketStatus, truncated: bool) -> Verdict {
    if truncated {
        return verdict_of(settings.truncated_open);
    }
    match packet::is_malformed(status) {
        true => verdict_of(settings.malformed_open),
        false => settings.default_verdict,
    }
}

/// The base chains that see the packet; none if it is of neither family.
fn bases_of(compiled: &Compiled, hook: u8, nfproto: u8) -> &[u32] {
    let family = match nfproto {
        IPV4 => 0,
        IPV6 => 1,
        _ => FAMILIES,
    };
    let families = compiled.hooks.get(usize::from(hook));
    families
        .and_then(|families| families.get(family))
        .map_or(&[], Vec::as_slice)
}

fn nfproto_of(input: &DecideInput) -> u8 {
    match (input.nfproto, input.packet.version) {
        (0, 4) => IPV4,
        (0, 6) => IPV6,
        (nfproto, _) => nfproto,
    }
}

fn fail(open: bool, outcome: &mut DecideOutcome) {
    outcome.verdict = verdict_of(open);
    outcome.by = DecideBy::Fail;
}

/// The outcome before anything is decided.
#[inline]
fn undecided(settings: &DecideSettings, input: &DecideInput) -> DecideOutcome {
    DecideOutcome {
        verdict: settings.default_verdict,
        by: DecideBy::Default,
        rule: 0,
        chain: 0,
        mark_set: false,
        mark: input.mark,
        reject: None,
        undecidable: false,
        log_count: 0,
        logs: [0; LOGS_MAX],
    }
}

/// Not part of the callers, which are: so the outcome stays where they have it.
#[inline(never)]
fn decide_by<R: DecideRecorder>(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
    outcome: &mut DecideOutcome,
    recorder: &mut R,
) {
    let by_policy = settings.malformed_by_policy && policy.is_some();
    if input.truncated {
        fail(settings.truncated_open, outcome);
        return;
    }
    if packet::is_malformed(input.status) && !by_policy {
        fail(settings.malformed_open, outcome);
        return;
    }
    let Some(&policy) = policy else {
        return;
    };
    let nfproto = nfproto_of(input);
    let bases = bases_of(policy.compiled, input.hook, nfproto);
    if bases.is_empty() {
        return;
    }
    let [ipv4, ipv6] = policy.compiled.layer4;
    if input.status == PacketStatus::Cut && (if nfproto == IPV6 { ipv6 } else { ipv4 }) {
        outcome.undecidable = true;
        fail(settings.truncated_open, outcome);
        return;
    }
    walk::policy(&policy, input, bases, nfproto, recorder, outcome);
}

/// What happens with a packet.
/// - policy: none = `decide` holds.
/// - The --fail modes decide about truncated packets, malformed ones unless
///   settings.malformed_by_policy, and cut ones if the policy reads layer 4.
#[inline]
pub fn packet(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
) -> DecideOutcome {
    let mut outcome = undecided(settings, input);
    decide_by(settings, policy, input, &mut outcome, &mut Deaf);
    outcome
}

/// Does what `packet` does and tells of every rule on the way. policy: compiled with
/// settings.linear, else rules that can't match are left out.
pub fn trace(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
    recorder: &mut impl DecideRecorder,
) -> DecideOutcome {
    let mut outcome = undecided(settings, input);
    decide_by(settings, policy, input, &mut outcome, recorder);
    outcome
}
