// SPDX-License-Identifier: GPL-2.0-or-later
//! What deciding takes and gives: a packet, an outcome, a step of a walk.

use crate::names::Names;
use crate::packet::verdict::Verdict;
use crate::packet::{Packet, PacketStatus};
use crate::policy::{Field, Reject, Verdict as Leads, KEY_FIELDS_MAX};

/// Position of a rule, or of one of its statements, in the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompilePlace {
    /// Into `Policy::tables`.
    pub table: u32,
    /// Into the table's chains.
    pub chain: u32,
    /// Into the chain's rules.
    pub rule: u32,
    /// Into the rule's statements; 0 for a rule.
    pub statement: u32,
}

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
    /// --undecided: `Accept` or `Drop`.
    pub undecided_verdict: Verdict,
    /// --fail unknown=open.
    pub unknown_open: bool,
}

/// Packet with its metadata from the kernel.
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
    /// Names that its client has sent; none = the packet has no names.
    pub names: Option<&'a Names>,
    /// Numbers of the host among the policy's names and of the offered protocols, as `hostnames::resolve` gives them.
    pub host_number: u32,
    pub alpn_bits: u32,
    /// The policy has refused its connection: it is dropped, and no rule looks at it.
    pub refused: bool,
    /// The time, by a clock that doesn't go back.
    pub now_ns: u64,
}

/// Log statements that an outcome names.
pub const LOGS_MAX: usize = 8;

/// Origin of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideBy {
    /// `DecideOutcome::rule`
    Rule,
    /// The policy of the base chain `DecideOutcome::chain`.
    Policy,
    /// No base chain sees the packet, or there is no policy.
    Default,
    /// The --fail mode.
    Fail,
    /// --undecided: a rule reads what the client has not shown yet.
    Undecided,
    /// The policy has refused its connection before.
    Connection,
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
    /// A rule set the mark, perhaps to the value that it had.
    pub mark_set: bool,
    /// As the rules left it.
    pub mark: u32,
    /// Reply to send, with `Verdict::Reject`.
    pub reject: Option<Reject>,
    /// By --fail: the bytes that a rule reads were not copied.
    pub undecidable: bool,
    /// By --undecided or --fail: a rule reads a name that is not known yet, or can't be read.
    pub undecided: bool,
    /// A rule looked at a name that is known, or at that there is none.
    pub read_names: bool,
    /// Log statements passed.
    pub log_count: u32,
    /// The first of them, for `compile::log_at`.
    pub logs: [u32; LOGS_MAX],
}

/// How far a packet got in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideWhy {
    /// Every statement held.
    Held,
    /// A match or map: the key's fields have the values of the step.
    Differs,
    /// A match or map: the packet does not have a field.
    Missing,
    /// A field is beyond the captured bytes: the rule may hold or not.
    Beyond,
    /// A name is not known yet, or can't be read: the rule may hold or not.
    Unknown,
    /// The limit did not let it through.
    Limit,
    /// The quota did not let it through.
    Quota,
    /// The rule is for packets of another kind (`dependency`).
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
    /// An unknown value decides whether the rule holds or the packet reaches it.
    pub may: bool,
    /// With `Missing`, `Beyond` and `Unknown`.
    pub missing: Option<Field>,
    /// With `Differs`.
    pub values_count: u32,
    pub values: [u128; KEY_FIELDS_MAX],
    /// Verdict of the rule or of its vmap; `Drop` for a reject.
    pub verdict: Option<Leads>,
}

/// Listener of a walk.
pub trait DecideRecorder {
    /// Whether a listener is set.
    const LISTENS: bool = true;
    /// A chain is entered.
    fn chain(&mut self, chain: CompilePlace, depth: u32);
    /// A rule has been walked.
    fn rule(&mut self, step: &DecideStep);
}
