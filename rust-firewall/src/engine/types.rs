// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of a decision: its input, its outcome, and the steps of a walk (the evaluation of the rules for a packet).

use crate::names::Names;
use crate::packet::verdict::Verdict;
use crate::packet::{Packet, PacketStatus};
use crate::policy::{Field, Reject, Verdict as RuleVerdict, KEY_FIELDS_MAX};

/// Position of a chain, a rule or a statement in the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompilePlace {
    /// Index in `Policy::tables`.
    pub table: u32,
    /// Index in the table's chains.
    pub chain: u32,
    /// Index in the chain's rules.
    pub rule: u32,
    /// Index in the rule's statements; 0 in the position of a rule or chain.
    pub statement: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct DecideSettings {
    /// Verdict of --default, if there is no policy, or no base chain for the packet: `Accept` or `Drop`.
    pub default_verdict: Verdict,
    /// True for --fail malformed=open.
    pub malformed_open: bool,
    /// True for --fail truncated=open.
    pub truncated_open: bool,
    /// True for --malformed policy: the rules decide malformed IPv4 and IPv6 packets, too.
    pub malformed_by_policy: bool,
    /// Verdict of --undecided: `Accept` or `Drop`.
    pub undecided_verdict: Verdict,
    /// True for --fail unknown=open.
    pub unknown_open: bool,
}

/// A packet with its metadata from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct DecideInput<'a> {
    /// Result of `packet::parse`.
    pub packet: &'a Packet<'a>,
    pub status: PacketStatus,
    /// True if the netlink message did not fit its slot of the receive buffer: other fields are ignored.
    pub truncated: bool,
    /// Hook of netfilter that queued the packet: a `policy::Hook`.
    pub hook: u8,
    /// Protocol: NFPROTO_IPV4 or NFPROTO_IPV6; 0 = the packet's version decides.
    pub nfproto: u8,
    /// Length of the packet in the kernel, in bytes.
    pub length: u32,
    /// Mark of the packet; 0 = none.
    pub mark: u32,
    /// Index of the interface at which the packet arrived; 0 = none.
    pub iif: u32,
    /// Index of the interface by which the packet leaves; 0 = none.
    pub oif: u32,
    /// Name of the interface at which the packet arrived, as a value of `Type::Ifname`; 0 = none.
    pub iifname: u128,
    /// Name of the interface by which the packet leaves, as a value of `Type::Ifname`; 0 = none.
    pub oifname: u128,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Connection state from conntrack, as a value of `Type::CtState`; None = the packet has none.
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
    /// Names that the client of the packet's connection has sent; None = the packet has no names.
    pub names: Option<&'a Names>,
    /// Number in the policy of the host name that the client has sent, or of the nearest wildcard above it
    /// (`hostnames::resolve`); 0 = the policy has neither, or the name is not known.
    pub host_number: u32,
    /// Bit mask of the ALPN protocols that the client offers. Each protocol in the policy has one bit.
    pub alpn_bits: u32,
    /// True if the policy has refused the packet's connection. Then no rule is evaluated, and the packet is dropped,
    /// unless --fail decides it as truncated or malformed.
    pub refused: bool,
    /// Time of the decision by a monotonic clock.
    pub now_ns: u64,
}

/// Maximum number of log statements that an outcome lists.
pub const LOGS_MAX: usize = 8;

/// Origin of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideBy {
    /// The rule `DecideOutcome::rule`.
    Rule,
    /// Policy of the base chain `DecideOutcome::chain`.
    Policy,
    /// No base chain applies to the packet, or there is no policy.
    Default,
    /// A --fail mode.
    Fail,
    /// --undecided: a rule reads a name that the client has not shown yet.
    Undecided,
    /// The policy had refused the connection before.
    Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecideOutcome {
    /// Verdict: `Accept`, `Drop` or `Reject`.
    pub verdict: Verdict,
    /// Origin of the verdict; if several base chains had a verdict, origin of the last one.
    pub by: DecideBy,
    /// Number of the rule that decided the packet (`compile::rule_at`).
    pub rule: u32,
    /// Number of the chain whose rule or policy decided the packet (`compile::chain_at`).
    pub chain: u32,
    /// True if a rule set the mark, perhaps to the value that it had.
    pub mark_set: bool,
    /// Mark of the packet after the rules.
    pub mark: u32,
    /// Reply to send, if the verdict is `Verdict::Reject`.
    pub reject: Option<Reject>,
    /// True if --fail or --undecided decided, and a rule reads bytes that were not copied.
    pub undecidable: bool,
    /// True if --undecided or --fail decided, and a rule reads a name that is not known yet, or is unreadable.
    pub undecided: bool,
    /// True if the names are known, and a rule read one of them, present or not. A rule that an index skipped counts if
    /// its evaluation would have read one. The exceptions are at `walk::note_names`.
    pub read_names: bool,
    /// Number of log statements that were executed.
    pub log_count: u32,
    /// Numbers of the executed log statements, but only of the first LOGS_MAX. `compile::log_at` returns a number's
    /// position.
    pub logs: [u32; LOGS_MAX],
}

/// Result of a rule or statement: it held, or the reason why it did not hold or is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideWhy {
    /// The statement held, or all statements of the rule held.
    Held,
    /// A match or map did not hold for the values of its key's fields (`DecideStep::values`).
    Differs,
    /// A match or map did not hold: the packet does not have a field of its key.
    Missing,
    /// A field is beyond the captured bytes: it is unknown whether the rule holds.
    Beyond,
    /// A name is not known yet or is unreadable, or the mark has several possible values: it is unknown whether the
    /// rule holds.
    Unknown,
    /// A limit did not hold.
    Limit,
    /// A quota did not hold.
    Quota,
    /// The packet does not meet the rule's conditions (`dependency`).
    NoAnswer,
}

/// Result of the evaluation of one rule, for a recorder (`DecideRecorder`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecideStep {
    /// Position of the rule. Its field statement is the index of the statement that did not hold or whose result is
    /// unknown, or the number of statements if `why` is `Held`. It is 0 if `why` results from a condition of the rule
    /// (`dependency`).
    pub place: CompilePlace,
    /// Number of jumps and gotos on the way to the rule.
    pub depth: u32,
    pub why: DecideWhy,
    /// True if it depends on an unknown value whether the rule holds, or whether the packet reaches it. False if the
    /// rule certainly does not hold.
    pub may: bool,
    /// Field that is missing (`Missing`), not copied (`Beyond`) or unknown (`Unknown`), or that has several possible
    /// values (`Differs` with values_count 0).
    pub missing: Option<Field>,
    /// Number of values, for `Differs`; 0 if the field `missing` has several values.
    pub values_count: u32,
    pub values: [u128; KEY_FIELDS_MAX],
    /// Verdict of the rule or of its verdict map, `Drop` for a reject; None if the rule ended without a verdict.
    pub verdict: Option<RuleVerdict>,
}

/// Recorder of a walk: receives the chains and rules that are evaluated.
pub trait DecideRecorder {
    /// False if the recorder records nothing: then its functions are not called.
    const LISTENS: bool = true;
    /// Called when a chain is entered.
    fn chain(&mut self, chain: CompilePlace, depth: u32);
    /// Called when a rule has been evaluated.
    fn rule(&mut self, step: &DecideStep);
}
