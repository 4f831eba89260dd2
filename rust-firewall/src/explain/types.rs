// SPDX-License-Identifier: GPL-2.0-or-later
//! State of `explain`, and the current packet.

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

/// Sums over all packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplainSums {
    pub packets: u64,
    pub accepted: u64,
    pub dropped: u64,
    pub rejected: u64,
    /// Number of packets with a recorded verdict.
    pub recorded: u64,
    /// Number of packets whose verdict differs from the recorded verdict.
    pub different: u64,
    /// Number of packets whose comment in the capture is invalid.
    pub damaged: u64,
}

/// A compiled policy with its state.
pub struct ExplainEngine {
    pub compiled: Compiled,
    pub flow: Flow,
    pub counters: FlowCounters,
}

/// Data of the command `explain`: its options, the policy with its two engines, sums, and data of the current packet.
pub struct Explain<'a> {
    /// Options, with copy_bytes raised to the policy's need unless the command line sets it.
    pub options: &'a Options,
    pub policy: Policy,
    /// Hook of packets whose metadata has no hook.
    pub hook: Hook,
    pub indexes: Indexes,
    /// Metadata of the current packet.
    pub facts: OptionsFacts,
    /// Engine with indexes, as in the daemon.
    pub daemon: ExplainEngine,
    /// Engine that evaluates every rule, without indexes.
    pub linear: ExplainEngine,
    pub sums: ExplainSums,
    /// Number of frames that are not IP.
    pub skipped: u64,
    /// Time of the first packet in the capture's order, in nanoseconds since 1970.
    pub first_ns: u64,
    /// Latest time of a packet so far, in nanoseconds since 1970.
    pub now_ns: u64,
    /// Table of connections, if the policy reads names.
    pub connections: Option<Box<Connections>>,
    /// Pending DNS queries, if the policy learns.
    pub asked: Option<Asked>,
    /// Names that the client of the current packet has shown.
    pub shown: Names,
    pub trace: Trace,
}

/// The current packet and its outcome.
pub struct Explained<'a> {
    /// Number of the packet's frame, from 1.
    pub number: u64,
    /// Time from the first packet to this packet, in nanoseconds; negative if this packet is earlier.
    pub time_ns: i64,
    pub packet: Packet<'a>,
    pub status: PacketStatus,
    pub outcome: DecideOutcome,
    /// True if the packet was rejected and the daemon would send a reply.
    pub has_reply: bool,
    /// Verdict that the capture records for the packet; None = the capture records none.
    pub recorded: Option<Verdict>,
}

/// Returns true if the capture records a verdict for the packet, and the policy's verdict differs from it.
pub fn differs(explained: &Explained) -> bool {
    let verdict = explained.outcome.verdict;
    explained
        .recorded
        .is_some_and(|recorded| recorded != verdict)
}

/// Returns the name of the interface with an index number (explain/indexes); empty = none.
pub fn interface(explain: &Explain, index: u32) -> Vec<u8> {
    let facts = &explain.facts;
    indexes::name_of(&explain.indexes, index, &facts.iif, &facts.oif)
}

/// Returns the position of a counter statement in the policy's text, and the counter's values.
/// - counter: number of the counter in the compiled policy.
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
