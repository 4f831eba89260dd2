// SPDX-License-Identifier: GPL-2.0-or-later
//! Position of a packet in a policy: the current chain, its rules in their order, and the rules to return to.
#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::engine::candidates;
use crate::engine::compiled::{CompileIndex, CompileReach, Compiled, INDEXES_MAX};
use crate::engine::fields::{self, Fields};
use crate::engine::flow::DecidePolicy;
use crate::engine::lookup;
use crate::engine::marks::{self, MarkSet};
use crate::engine::types::{DecideBy, DecideInput, DecideOutcome, DecideRecorder};
use crate::policy::{Verdict as RuleVerdict, WAY_MAX};

/// Maximum number of rule lists of a chain: a list for each index, and a list of the rules without an index.
const LISTS_MAX: usize = INDEXES_MAX + 1;

/// A chain that is being evaluated. Its lists contain the numbers of the rules that are left; the lowest number is
/// next.
#[derive(Clone)]
pub struct Frame<'a> {
    pub chain: u32,
    pub lists: ArrayVec<&'a [u32], LISTS_MAX>,
}

/// Rule that led to another chain, and after which the evaluation continues when that chain has ended.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub chain: u32,
    /// Rule that led to the other chain.
    pub rule: u32,
    pub way: u32,
    /// State of the rule in a walk along several ways (`ways`).
    pub fork: Fork,
}

/// State of a walk along several ways, for a rule that led to another chain.
#[derive(Clone, Copy)]
pub struct Fork {
    /// True if a way may continue after the rule, however the ways through the other chain end.
    pub joins: bool,
    /// True if the rule may lead to the other chain by goto: then the end of the other chain is also the end of the
    /// rule's chain.
    pub is_goto: bool,
    /// True if, after the rule, the packet may be accepted on another way.
    pub aside: bool,
    /// Index in `Set::leads` of the next possible target of the rule; 0 = the rule has only one target.
    pub next: u32,
    /// Marks on the ways that continue after the rule, apart from the way through the end of the other chain.
    pub marks: MarkSet,
    /// Marks on the ways on which the rule holds.
    pub held: MarkSet,
}

/// Fork of a rule that certainly leads to one chain.
pub const NO_FORK: Fork = Fork {
    joins: false,
    is_goto: false,
    aside: false,
    next: 0,
    marks: marks::NONE,
    held: marks::NONE,
};

/// State of a packet's evaluation by the policy.
pub struct Walk<'a, R> {
    pub policy: DecidePolicy<'a>,
    pub input: &'a DecideInput<'a>,
    pub recorder: &'a mut R,
    pub outcome: &'a mut DecideOutcome,
    pub fields: Fields,
    /// Current chain.
    pub frame: Frame<'a>,
    pub reach: CompileReach,
    /// Number of jumps and gotos on the way to the current chain.
    pub way: u32,
    /// Index in its rule of the statement with an unknown result at which a walk has ended.
    pub stuck: u32,
    /// Places to return to.
    pub stack: ArrayVec<Waiting, WAY_MAX>,
}

fn add_list<'a>(frame: &mut Frame<'a>, list: &'a [u32]) {
    if !list.is_empty() {
        // There is room for all lists of a chain.
        let _ = frame.lists.try_push(list);
    }
}

/// Adds the rules that an index has for the packet's field value to the lists of the current chain.
fn add_candidates<'a, R>(walk: &mut Walk<'a, R>, index: &'a CompileIndex) {
    let lookup = &index.candidates.lookup;
    if !fields::is_present(&walk.fields, index.field) {
        return;
    }
    let list = match index.slot {
        Some(slot) => lookup::find_wide(lookup, fields::wide(&walk.fields, slot)),
        None => lookup::find(lookup, fields::narrow(&walk.fields, index.field)),
    };
    if let Some(list) = list {
        add_list(&mut walk.frame, candidates::list(&index.candidates, list));
    }
}

#[inline(always)]
fn enter<R>(walk: &mut Walk<R>, chain: u32) {
    let compiled = walk.policy.compiled;
    walk.frame.chain = chain;
    walk.frame.lists.clear();
    let entered = compiled.chains.get(chain as usize);
    let Some(finder) = entered.and_then(|entered| entered.finders.get(walk.reach as usize)) else {
        return;
    };
    let first = finder.first_always as usize;
    let always = first..first + finder.always_count as usize;
    add_list(
        &mut walk.frame,
        compiled.always.get(always).unwrap_or_default(),
    );
    let first = finder.first_index as usize;
    let indexes = compiled
        .indexes
        .get(first..first + finder.index_count as usize);
    for index in indexes.unwrap_or_default() {
        add_candidates(walk, index);
    }
}

/// Enters a chain at its first rule, and reports the chain to the recorder, if there is one.
pub fn enter_newly<R: DecideRecorder>(walk: &mut Walk<R>, chain: u32) {
    enter(walk, chain);
    if R::LISTENS {
        if let Some(chain) = walk.policy.compiled.chains.get(chain as usize) {
            walk.recorder.chain(chain.place, walk.way);
        }
    }
}

/// Skips the rules of a list up to and including `rule`.
fn skip(list: &mut &[u32], rule: u32) {
    let passed = list.partition_point(|&other| other <= rule);
    *list = list.get(passed..).unwrap_or_default();
}

/// Returns the next rule of the current chain, and removes the rule from the frame's lists. None at the chain's end.
#[inline]
pub fn next_rule(frame: &mut Frame) -> Option<u32> {
    let (first, others) = frame.lists.split_first_mut()?;
    let mut lowest = first;
    for list in others {
        if let Some(&rule) = list.first() {
            if lowest.first().is_none_or(|&other| rule < other) {
                lowest = list;
            }
        }
    }
    let (&rule, rest) = lowest.split_first()?;
    *lowest = rest;
    Some(rule)
}

/// Continues after a rule that led to another chain: enters the rule's chain again, and skips its rules up to and
/// including this rule.
pub fn go_back<R>(walk: &mut Walk<R>, waiting: &Waiting) {
    walk.way = waiting.way;
    enter(walk, waiting.chain);
    for list in &mut walk.frame.lists {
        skip(list, waiting.rule);
    }
}

/// Leaves the current chain: continues after the rule of the last open jump. Returns false if no jump is open.
pub fn leave<R>(walk: &mut Walk<R>) -> bool {
    let Some(waiting) = walk.stack.pop() else {
        return false;
    };
    go_back(walk, &waiting);
    true
}

/// Pushes a rule onto the walk's stack, to continue after it later. There is room: `parse` refuses paths of more than
/// WAY_MAX chains.
pub fn remember<R>(walk: &mut Walk<R>, rule: u32, fork: Fork) {
    let _ = walk.stack.try_push(Waiting {
        chain: walk.frame.chain,
        rule,
        way: walk.way,
        fork,
    });
}

pub fn end_by_rule<R>(walk: &mut Walk<R>, verdict: RuleVerdict, rule: u32) -> RuleVerdict {
    walk.outcome.by = DecideBy::Rule;
    walk.outcome.rule = rule;
    walk.outcome.chain = walk.frame.chain;
    verdict
}

/// Returns the verdict at the end of a base chain.
pub fn policy(compiled: &Compiled, base: u32) -> RuleVerdict {
    let chain = compiled.chains.get(base as usize);
    chain.map_or(RuleVerdict::Drop, |chain| chain.policy)
}

pub fn end_by_policy<R>(walk: &mut Walk<R>, base: u32) -> RuleVerdict {
    walk.outcome.by = DecideBy::Policy;
    walk.outcome.chain = base;
    policy(walk.policy.compiled, base)
}
