// SPDX-License-Identifier: GPL-2.0-or-later
//! The form of a policy that decide walks. It never changes and is shared by all workers.

use std::sync::Arc;

use crate::engine::candidates::Candidates;
use crate::engine::hostnames::HostNumbers;
use crate::engine::learned::Learned;
use crate::engine::lookup::Lookup;
use crate::engine::set::Set;
use crate::engine::types::CompilePlace;
use crate::policy::requirement::Requirement;
use crate::policy::{Counter, Field, Key, Reject, Verdict, HOOK_COUNT};

/// Nanoseconds: 73 years.
pub const LIMIT_SIZE_MAX: i64 = i64::MAX / 4;

/// Indexes of a chain, at most.
pub const INDEXES_MAX: usize = 3;
/// Rules that an index must spare a packet.
pub const INDEX_GAIN_MIN: i64 = 8;
/// IPv4, IPv6.
pub const FAMILIES: usize = 2;

/// Parameters of a limit, in the terms of nft_limit.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimit {
    /// Nanoseconds of its unit.
    pub nsecs: u64,
    /// A unit.
    pub rate: u64,
    /// tokens_max: nanoseconds that a full bucket is worth.
    pub size: i64,
    /// Nanoseconds that a packet costs; unused for limits of bytes.
    pub cost: i64,
    pub of_bytes: bool,
    pub over: bool,
}

/// Parameters of a quota, in the terms of nft_quota.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQuota {
    pub bytes: u64,
    /// To begin with.
    pub used: u64,
    pub over: bool,
}

/// Kind of lookup in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileAsk {
    /// field & mask
    Narrow { field: Field, mask: u32 },
    /// wides[n]: its field, masked
    Wide(u32),
    /// keys[n]
    Key(u32),
}

/// Compiled statement. A rule's stand side by side, in their order, so that the n-th is
/// the n-th of the policy. negated: holds if the comparison does not, but never without the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileOp {
    /// Match: (field & mask) - low <= span
    Narrow {
        field: Field,
        negated: bool,
        mask: u32,
        low: u32,
        span: u32,
    },
    /// Match: the same with wides[wide]
    Wide {
        wide: u32,
        negated: bool,
    },
    /// Match in sets[set]
    Set {
        set: u32,
        ask: CompileAsk,
        negated: bool,
    },
    /// Match with the addresses that learning[n] has
    Learned {
        learning: u32,
        ask: CompileAsk,
        negated: bool,
    },
    /// counters[n]
    Counter(u32),
    /// limits[n]
    Limit(u32),
    /// quotas[n]
    Quota(u32),
    /// logs[n]
    Log(u32),
    /// (mark & keep) ^ toggle
    Mark {
        keep: u32,
        toggle: u32,
    },
    /// What sets[set] gives
    MarkMap {
        set: u32,
        ask: CompileAsk,
    },
    /// chain: of jump and goto
    Verdict {
        verdict: Verdict,
        chain: u32,
    },
    Reject(Reject),
    /// Where sets[set] leads
    Vmap {
        set: u32,
        ask: CompileAsk,
    },
}

impl CompileOp {
    /// Whether it has no effect: it only holds or does not.
    pub fn is_match(&self) -> bool {
        matches!(
            self,
            CompileOp::Narrow { .. }
                | CompileOp::Wide { .. }
                | CompileOp::Set { .. }
                | CompileOp::Learned { .. }
        )
    }

    /// Whether it is a match that is negated.
    pub fn negated(&self) -> bool {
        match *self {
            CompileOp::Narrow { negated, .. }
            | CompileOp::Wide { negated, .. }
            | CompileOp::Set { negated, .. }
            | CompileOp::Learned { negated, .. } => negated,
            _ => false,
        }
    }
}

/// Operands of a match of a wide field.
#[derive(Clone, Copy, Debug)]
pub struct CompileWide {
    pub field: Field,
    /// `fields::wide_slot`
    pub slot: usize,
    pub mask: u128,
    pub low: u128,
    pub span: u128,
}

/// A set that learns addresses.
#[derive(Clone, Debug)]
pub struct CompileLearning {
    /// Of sets: its own, which is empty.
    pub set: u32,
    /// What `learned` knows it by: the same for all sets that say the same.
    pub identity: u64,
    pub is_ipv6: bool,
    /// The numbers of the names whose addresses it learns.
    pub names: Lookup,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileRule {
    /// Into ops.
    pub first: u32,
    pub count: u32,
    /// What a packet must be before the first statement is looked at: `dependency::NEEDS_TCP` and
    /// so on.
    pub needs: u32,
}

/// Rules of a chain that can only match if one field has certain values.
#[derive(Clone, Debug)]
pub struct CompileIndex {
    pub field: Field,
    /// `fields::wide_slot`
    pub slot: Option<usize>,
    /// To numbers of rules.
    pub candidates: Candidates,
}

/// By which fields of a packet the rules of a chain are found. A field beyond the captured bytes
/// finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileReach {
    /// By all.
    Whole,
    /// By those that are no names.
    Unnamed,
    /// By those that are neither names nor behind the IP header.
    BeyondCopy,
    /// By none: every rule is walked.
    None,
}

pub const REACH_COUNT: usize = CompileReach::None as usize + 1;

/// How the rules of a chain are found.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileFinder {
    /// Into indexes.
    pub first_index: u32,
    pub index_count: u32,
    /// Into always: rules that are in no index.
    pub first_always: u32,
    pub always_count: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileChain {
    /// Rules are numbered across all chains.
    pub first_rule: u32,
    pub rule_count: u32,
    /// By `CompileReach`.
    pub finders: [CompileFinder; REACH_COUNT],
    /// The policy of a base chain.
    pub policy: Verdict,
    pub place: CompilePlace,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileCounter {
    pub place: CompilePlace,
    pub start: Counter,
}

/// A compiled policy, for decide and flow; others ask the functions below.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    pub(crate) requirement: Requirement,
    /// `fields::bit` of all fields that are looked at.
    pub(crate) wanted: u64,
    /// The names of hosts, and protocols of ALPN.
    pub hosts: HostNumbers,
    pub(crate) ops: Vec<CompileOp>,
    pub(crate) wides: Vec<CompileWide>,
    pub(crate) keys: Vec<Key>,
    pub(crate) sets: Vec<Set>,
    /// At most 32.
    pub(crate) learning: Vec<CompileLearning>,
    /// What they have learnt; none = nothing, ever.
    pub learned: Option<Arc<Learned>>,
    pub(crate) rules: Vec<CompileRule>,
    pub(crate) chains: Vec<CompileChain>,
    pub(crate) indexes: Vec<CompileIndex>,
    /// Numbers of rules, ascending within a chain.
    pub(crate) always: Vec<u32>,
    /// Numbers of the base chains that see a packet, in the order in which they do.
    pub(crate) hooks: [[Vec<u32>; FAMILIES]; HOOK_COUNT],
    pub(crate) counters: Vec<CompileCounter>,
    pub(crate) logs: Vec<CompilePlace>,
    pub limits: Vec<FlowLimit>,
    pub(crate) quotas: Vec<FlowQuota>,
}
