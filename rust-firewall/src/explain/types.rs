// SPDX-License-Identifier: GPL-2.0-or-later
//! What `explain` works with and the packet at hand, for the walk and for those who print it.

use crate::connection::asked::Asked;
use crate::connection::Connections;
use crate::engine::compile;
use crate::engine::compiled::Compiled;
use crate::engine::flow::{self, Flow, FlowCounter, FlowCounters};
use crate::engine::types::{CompilePlace, DecideOutcome};
use crate::explain::indexes::{self, Indexes};
use crate::explain::trace::Trace;
use crate::names::Names;
use crate::options::{Options, OptionsFacts};
use crate::packet::verdict::Verdict;
use crate::packet::{Packet, PacketStatus};
use crate::policy::{Hook, Policy};

/// The sums over all packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplainSums {
    pub packets: u64,
    pub accepted: u64,
    pub dropped: u64,
    pub rejected: u64,
    /// Packets whose verdict was recorded.
    pub recorded: u64,
    /// Packets whose verdict differs from the recorded one.
    pub different: u64,
    /// Comments that could not be read.
    pub damaged: u64,
}

/// A policy compiled, with its state.
pub struct ExplainEngine {
    pub compiled: Compiled,
    pub flow: Flow,
    pub counters: FlowCounters,
}

/// State of `explain`.
pub struct Explain<'a> {
    pub options: &'a Options,
    pub policy: Policy,
    /// Hook of packets without a comment.
    pub hook: Hook,
    pub indexes: Indexes,
    /// Metadata of the current packet.
    pub facts: OptionsFacts,
    /// As the daemon has it.
    pub daemon: ExplainEngine,
    /// Rule by rule.
    pub linear: ExplainEngine,
    pub sums: ExplainSums,
    /// Frames that are not IP.
    pub skipped: u64,
    /// When the first packet came.
    pub first_ns: u64,
    /// The time of the latest packet so far.
    pub now_ns: u64,
    /// If the policy reads names.
    pub connections: Option<Box<Connections>>,
    /// If the policy learns.
    pub asked: Option<Asked>,
    /// Names that the client of the current packet has shown.
    pub shown: Names,
    pub trace: Trace,
}

/// The packet at hand.
pub struct Explained<'a> {
    /// The number of its frame, from 1.
    pub number: u64,
    /// Since the first.
    pub time_ns: i64,
    pub packet: Packet<'a>,
    pub status: PacketStatus,
    pub outcome: DecideOutcome,
    /// A reject whose reply is due.
    pub has_reply: bool,
    /// The verdict that was recorded.
    pub recorded: Option<Verdict>,
}

/// Whether the packet's verdict is another than the recorded one.
pub fn differs(explained: &Explained) -> bool {
    let verdict = explained.outcome.verdict;
    explained
        .recorded
        .is_some_and(|recorded| recorded != verdict)
}

/// The name of the interface that has this index here; empty = none.
pub fn interface(explain: &Explain, index: u32) -> Vec<u8> {
    let facts = &explain.facts;
    indexes::name_of(&explain.indexes, index, &facts.iif, &facts.oif)
}

/// Position of a counter in the policy's text, and its figures.
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
