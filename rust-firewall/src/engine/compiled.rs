// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiled policy, which decide evaluates. It never changes, and all workers share it.

use std::sync::Arc;

use crate::engine::candidates::Candidates;
use crate::engine::hostnames::HostNumbers;
use crate::engine::learned::Learned;
use crate::engine::lookup::Lookup;
use crate::engine::set::Set;
use crate::engine::types::CompilePlace;
use crate::policy::requirement::Requirement;
use crate::policy::{Counter, Family, Field, Key, Reject, Verdict, HOOK_COUNT};

/// Maximum size of a limit's bucket in nanoseconds: 73 years.
pub const LIMIT_SIZE_MAX: i64 = i64::MAX / 4;

/// Maximum number of indexes of a finder (`CompileFinder`).
pub const INDEXES_MAX: usize = 3;
/// Minimum number of rules per packet whose evaluation an index must save; otherwise the index is not created.
pub const INDEX_GAIN_MIN: i64 = 8;
/// Number of IP families: IPv4, IPv6.
pub const FAMILIES: usize = 2;

/// Parameters of a limit, in the terms of nft_limit.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimit {
    /// Length of the limit's unit in nanoseconds.
    pub nsecs: u64,
    /// Maximum number of packets or bytes per unit of time.
    pub rate: u64,
    /// Size of the bucket in nanoseconds (tokens_max).
    pub size: i64,
    /// Cost of a packet in nanoseconds; unused for limits of bytes.
    pub cost: i64,
    pub of_bytes: bool,
    pub over: bool,
}

/// Parameters of a quota, in the terms of nft_quota.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQuota {
    pub bytes: u64,
    /// Number of bytes that count as used when the quota is created, from the policy's text.
    pub used: u64,
    pub over: bool,
}

/// Kind of key of a lookup in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileAsk {
    /// Narrow field: the key is field & mask.
    Narrow { field: Field, mask: u32 },
    /// Wide field: the key is field & mask, with the operands in wides[n].
    Wide(u32),
    /// Several fields, which keys[n] lists.
    Key(u32),
}

/// Compiled statement. A rule's compiled statements are adjacent, and in the same number and order as in the policy's
/// rule. A match with `negated` holds if its comparison does not; without the field, it never holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileOp {
    /// Match of a narrow field: (field & mask) - low <= span, in unsigned arithmetic.
    Narrow {
        field: Field,
        negated: bool,
        mask: u32,
        low: u32,
        span: u32,
    },
    /// Match of a wide field: like that of a narrow field, with the operands in wides[wide].
    Wide {
        wide: u32,
        negated: bool,
    },
    /// Match of a key in the set sets[set].
    Set {
        set: u32,
        ask: CompileAsk,
        negated: bool,
    },
    /// Match of an address with the learned addresses of learning[learning].
    Learned {
        learning: u32,
        ask: CompileAsk,
        negated: bool,
    },
    /// Counter: counters[n].
    Counter(u32),
    /// Limit: limits[n].
    Limit(u32),
    /// Quota: quotas[n].
    Quota(u32),
    /// Log statement: logs[n].
    Log(u32),
    /// Sets the packet's mark to (mark & keep) ^ toggle.
    Mark {
        keep: u32,
        toggle: u32,
    },
    /// Sets the packet's mark to a value of the map sets[set].
    MarkMap {
        set: u32,
        ask: CompileAsk,
    },
    /// Verdict; chain is the target of jump and goto.
    Verdict {
        verdict: Verdict,
        chain: u32,
    },
    Reject(Reject),
    /// Verdict of the map sets[set].
    Vmap {
        set: u32,
        ask: CompileAsk,
    },
}

impl CompileOp {
    /// Returns true if the statement is a match. No match has an effect: it only holds or not.
    pub fn is_match(&self) -> bool {
        matches!(
            self,
            CompileOp::Narrow { .. }
                | CompileOp::Wide { .. }
                | CompileOp::Set { .. }
                | CompileOp::Learned { .. }
        )
    }

    /// Returns true if the statement is a negated match.
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

/// Operands of a match of a wide field, or of a lookup by a wide field, which uses neither low nor span.
#[derive(Clone, Copy, Debug)]
pub struct CompileWide {
    pub field: Field,
    /// Index of the field among the wide fields (`fields::wide_slot`).
    pub slot: usize,
    pub mask: u128,
    pub low: u128,
    pub span: u128,
}

/// Set of the kernel that corresponds to a set of the policy: it has the same table and name.
#[derive(Clone, Debug)]
pub struct CompileKernelSet {
    pub family: Family,
    /// True if the set's addresses are IPv6.
    pub is_ipv6: bool,
    /// Name of the table. It has fewer than NAME_BYTES bytes, as has `name`.
    pub table: String,
    pub name: String,
}

/// Set that learns addresses from DNS answers.
#[derive(Clone, Debug)]
pub struct CompileLearning {
    /// Number of the set in sets. That entry of sets is empty, because the addresses are in `learned`.
    pub set: u32,
    /// Identity of the set in `learned`: a hash of its table, name, type and names. A reload with the same set keeps
    /// it.
    pub identity: u64,
    /// Corresponding set of the kernel, to which the addresses are added with --stage.
    pub kernel: CompileKernelSet,
    /// Lookup of the names whose addresses the set learns, by their numbers.
    pub names: Lookup,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileRule {
    /// Index in ops of the rule's first statement.
    pub first: u32,
    pub count: u32,
    /// Conditions of this rule on a packet (`dependency::NEEDS_TCP` etc.), checked before the rule's first statement,
    /// and the flag `dependency::READS_NAMES`.
    pub needs: u32,
    /// Index in the rule of the first statement that reads a name; `dependency::NO_NAMES` if none does.
    pub names_at: u32,
}

/// Index of a chain by one field: finds the rules that can match a packet with a certain value of this field.
#[derive(Clone, Debug)]
pub struct CompileIndex {
    pub field: Field,
    /// Index of the field among the wide fields (`fields::wide_slot`); None if it is narrow.
    pub slot: Option<usize>,
    /// Lookup from the field's value to numbers of rules.
    pub candidates: Candidates,
}

/// Set of a packet's fields whose indexes can be used to find rules. Fields beyond the captured bytes and unknown names
/// are not in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileReach {
    /// The indexes of all fields can be used.
    Whole,
    /// The indexes of all fields except names can be used.
    Unnamed,
    /// Only the indexes of IP header fields and metadata can be used: neither names nor fields after the IP header.
    BeyondCopy,
    /// No index can be used: every rule is evaluated.
    None,
}

pub const REACH_COUNT: usize = CompileReach::None as usize + 1;

/// Finder of the rules to evaluate in a chain: indexes, and the rules that are in no index.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileFinder {
    /// Position in `indexes` of the finder's first index.
    pub first_index: u32,
    pub index_count: u32,
    /// Position in `always` of the first rule that is in no index.
    pub first_always: u32,
    pub always_count: u32,
    /// Position in `readers` of the first rule that may read names although an index skips it.
    pub first_reader: u32,
    pub reader_count: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileChain {
    /// Number of the first rule; rules are numbered across all chains.
    pub first_rule: u32,
    pub rule_count: u32,
    /// Finders of the rules to evaluate, by `CompileReach`.
    pub finders: [CompileFinder; REACH_COUNT],
    /// Verdict of a base chain for packets that reach its end.
    pub policy: Verdict,
    pub place: CompilePlace,
}

#[derive(Clone, Copy, Debug)]
pub struct CompileCounter {
    pub place: CompilePlace,
    pub start: Counter,
}

/// A compiled policy. The functions of compile return the positions of its rules, chains, counters and log statements.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    pub(crate) requirement: Requirement,
    /// Bits (`fields::bit`) of all fields that the policy reads.
    pub(crate) wanted: u64,
    /// Host names and ALPN protocols of the policy.
    pub hosts: HostNumbers,
    pub(crate) ops: Vec<CompileOp>,
    pub(crate) wides: Vec<CompileWide>,
    pub(crate) keys: Vec<Key>,
    pub(crate) sets: Vec<Set>,
    /// Sets that learn addresses from DNS answers, at most 32.
    pub(crate) learning: Vec<CompileLearning>,
    /// Table of learned addresses, shared with the previous and the next policy; None until a policy that learns is
    /// loaded.
    pub learned: Option<Arc<Learned>>,
    pub(crate) rules: Vec<CompileRule>,
    pub(crate) chains: Vec<CompileChain>,
    pub(crate) indexes: Vec<CompileIndex>,
    /// Numbers of the rules that are in no index of a finder, ascending within each finder.
    pub(crate) always: Vec<u32>,
    /// Numbers of rules that may read names although an index of a finder skips them, ascending within each finder. Of
    /// rules that begin alike (`index`), the later rules may be left out.
    pub(crate) readers: Vec<u32>,
    /// Numbers of the base chains for a hook and a family, in the order of their evaluation.
    pub(crate) hooks: [[Vec<u32>; FAMILIES]; HOOK_COUNT],
    pub(crate) counters: Vec<CompileCounter>,
    pub(crate) logs: Vec<CompilePlace>,
    pub limits: Vec<FlowLimit>,
    pub(crate) quotas: Vec<FlowQuota>,
}
