// SPDX-License-Identifier: GPL-2.0-or-later
//! Snapshot: state of the program at one moment, for the control socket.

use std::sync::Arc;

use crate::base::clock;
use crate::engine::compile;
use crate::engine::learned;
use crate::engine::types::CompilePlace;
use crate::explain::describe;
use crate::options::Options;
use crate::policy::requirement::Requirement;
use crate::policy::{self, Policy};
use crate::ruleset::load;
use crate::ruleset::tally::Tally;
use crate::state::contract::Contract;
use crate::state::{self, State, StateInner};
use crate::worker::stats::Ledger;
use crate::worker::tracked::Tracked;
use crate::worker::wait;
use crate::worker::workers;

/// A counter statement of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotCounter {
    /// Index of the statement in the rule, from 0.
    pub statement: u32,
    pub packets: u64,
    pub bytes: u64,
}

/// A log statement of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLog {
    pub statement: u32,
    pub packets: u64,
}

/// A rule with its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRule {
    /// Position in the text: "web.nft:6".
    pub rule: String,
    /// Family and name of the table: "inet filter".
    pub table: String,
    /// Name of the chain: "input".
    pub chain: String,
    /// Canonical text of the rule, on one line.
    pub text: String,
    pub comment: Option<String>,
    pub counters: Vec<SnapshotCounter>,
    pub logs: Vec<SnapshotLog>,
}

/// A policy in a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotPolicy {
    pub file: String,
    /// Generation of the policy; the first policy has 1.
    pub generation: u32,
    /// UNIX time at which the policy was loaded, in milliseconds.
    pub loaded_ms: u64,
    pub chain_count: u32,
    pub rule_count: u32,
    pub requirement: Requirement,
    pub tracked: Tracked,
    /// Number of learned addresses that have not expired, including those of sets that only an earlier policy had.
    pub learned: u64,
    /// All rules in the policy's order, if they were requested; else empty.
    pub rules: Vec<SnapshotRule>,
}

const NS_PER_MS: u64 = 1_000_000;

/// State of the program at one moment. Times are UNIX times in milliseconds.
#[derive(Clone)]
pub struct Snapshot {
    pub time_ms: u64,
    pub started_ms: u64,
    /// Time since the start in milliseconds, by a clock that is never set.
    pub uptime_ms: u64,
    pub policy: Option<SnapshotPolicy>,
    /// Ledgers, one per queue.
    pub ledgers: Vec<Ledger>,
    /// Number of packets that the guard answered, for each queue.
    pub stalled: Vec<u64>,
    /// Failure of the last reload; None if it succeeded.
    pub reload_error: Option<String>,
    pub options: Arc<Options>,
    pub contract: Arc<Contract>,
    /// True if the guard has ended by itself.
    pub guard_ended: bool,
}

/// Copies a rule without its counts.
fn copy_rule(policy: &Policy, place: CompilePlace) -> SnapshotRule {
    let table = policy.tables.get(place.table as usize);
    let chain = table.and_then(|table| table.chains.get(place.chain as usize));
    let comment = describe::rule(policy, place).and_then(|rule| rule.comment.clone());
    let name =
        |table: &policy::Table| format!("{} {}", policy::family_name(table.family), table.name);
    SnapshotRule {
        rule: describe::place(policy, place),
        table: table.map(name).unwrap_or_default(),
        chain: chain.map(|chain| chain.name.clone()).unwrap_or_default(),
        text: describe::rule_text(policy, place),
        comment,
        ..SnapshotRule::default()
    }
}

fn is_of_rule(statement: CompilePlace, rule: CompilePlace) -> bool {
    (statement.table, statement.chain, statement.rule) == (rule.table, rule.chain, rule.rule)
}

/// Copies the rules with their counts. The tally's counters and logs are in the order of the rules, so that those of a
/// rule follow those of the rule before it.
fn copy_rules(tally: &Tally, rule_count: u32) -> Vec<SnapshotRule> {
    let mut counters = (0..).zip(&tally.counters).peekable();
    let mut logs = (0..).zip(&tally.logged).peekable();
    let mut rules = Vec::with_capacity(rule_count as usize);
    for number in 0..rule_count {
        let place = compile::rule_at(tally.compiled, number);
        let mut rule = copy_rule(tally.policy, place);
        while let Some((counter, figures)) = counters.next_if(|(counter, _)| {
            is_of_rule(compile::counter_at(tally.compiled, *counter), place)
        }) {
            rule.counters.push(SnapshotCounter {
                statement: compile::counter_at(tally.compiled, counter).statement,
                packets: figures.packets,
                bytes: figures.bytes,
            });
        }
        while let Some((log, packets)) =
            logs.next_if(|(log, _)| is_of_rule(compile::log_at(tally.compiled, *log), place))
        {
            rule.logs.push(SnapshotLog {
                statement: compile::log_at(tally.compiled, log).statement,
                packets: *packets,
            });
        }
        rules.push(rule);
    }
    rules
}

fn copy_policy(state: &State, inner: &StateInner, with_rules: bool) -> Option<SnapshotPolicy> {
    let loaded = inner.loaded.as_ref()?;
    let rule_count = loaded.compiled.rules.len() as u32;
    let learned = loaded.compiled.learned.as_ref();
    let rules = match with_rules {
        true => copy_rules(&state::tally(inner)?, rule_count),
        false => Vec::new(),
    };
    Some(SnapshotPolicy {
        file: state.options.policy.clone().unwrap_or_default(),
        generation: loaded.generation,
        loaded_ms: loaded.loaded_ms,
        chain_count: loaded.compiled.chains.len() as u32,
        rule_count,
        requirement: *load::requirement(loaded),
        tracked: inner.tracked,
        learned: learned.map_or(0, |learned| learned::count(learned, wait::clock())),
        rules,
    })
}

/// Creates a snapshot. Any thread may call this function, which waits while a policy is being replaced.
/// - with_rules: true if the snapshot gets the policy's rules with their counts.
pub fn take(state: &State, with_rules: bool) -> Snapshot {
    let inner = state::lock(state);
    let ledgers = workers::ledgers(&inner.workers);
    Snapshot {
        time_ms: clock::unix_ms(),
        started_ms: state.started_ms,
        uptime_ms: (wait::clock() - state.started_ns) / NS_PER_MS,
        policy: copy_policy(state, &inner, with_rules),
        stalled: ledgers.iter().map(|ledger| ledger.stalled).collect(),
        ledgers,
        reload_error: inner.reload_error.clone(),
        options: Arc::clone(&state.options),
        contract: Arc::clone(&inner.contract),
        guard_ended: inner.guard_ended,
    }
}
