// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of a packet if a policy reads unknown values: a match that reads one may hold or not, and both ways are
//! evaluated.
//!
//! The walk follows one way (path through the rules) after another, and stores only the places to return to. Where a
//! rule may lead to a verdict, the walk stores only whether the packet may be accepted, and continues as if the rule
//! did not hold; a chain to which the rule may lead is evaluated first. Rules have no effects on a way while the packet
//! may be accepted on another way past it ("aside"): only what happens however the packet is accepted is counted,
//! limited or marked.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{CompileOp, CompileRule};
use crate::engine::fields;
use crate::engine::frame::{self, Fork, Waiting, Walk, NO_FORK};
use crate::engine::marks::{self, MarkSet, MarkValues};
use crate::engine::matches::{self, Match};
use crate::engine::rule::{self, Holds, Read, Ways};
use crate::engine::set::SetTarget;
use crate::engine::statement;
use crate::engine::types::{DecideBy, DecideRecorder, DecideSettings, DecideWhy};
use crate::names::NamesState;
use crate::packet::verdict::Verdict;
use crate::policy::{Field, Verdict as RuleVerdict};

const NOWHERE: SetTarget = SetTarget {
    verdict: RuleVerdict::Continue,
    chain: 0,
};

/// Sets the outcome for a packet whose verdict depends on unknown values: --fail or --undecided decides.
/// - read: kinds of the unknown values.
/// - open: true to accept the packet, false to drop it.
fn end_open<R>(ways: &mut Ways<R>, read: Read, open: bool) {
    let by_names = ways.waits && read.names && (!read.beyond || ways.truncated_open);
    let outcome = &mut ways.walk.outcome;
    outcome.undecidable = read.beyond;
    outcome.undecided = read.names;
    outcome.reject = None;
    outcome.verdict = match open {
        true => Verdict::Accept,
        false => Verdict::Drop,
    };
    outcome.by = match by_names {
        true => DecideBy::Undecided,
        false => DecideBy::Fail,
    };
}

/// Resets the verdict, the rejection and the flags of unknown values that the previous way has left.
fn clear_end<R>(ways: &mut Ways<R>) {
    let outcome = &mut ways.walk.outcome;
    (outcome.verdict, outcome.reject) = (Verdict::Drop, None);
    (outcome.undecidable, outcome.undecided) = (false, false);
}

/// Returns the target of a rule that holds; Continue for a rule without a verdict, and for a verdict map whose key is
/// unknown or has several marks.
fn target<R>(ways: &mut Ways<R>, rule: &CompileRule) -> SetTarget {
    let to = |verdict, chain| SetTarget { verdict, chain };
    match statement::ops(ways.walk, rule).last() {
        Some(&CompileOp::Verdict { verdict, chain }) => to(verdict, chain),
        Some(CompileOp::Reject(_)) => to(RuleVerdict::Drop, 0),
        Some(op @ CompileOp::Vmap { .. }) => {
            let mut target = NOWHERE;
            statement::walk(ways.walk, op, &mut target);
            target
        }
        _ => NOWHERE,
    }
}

/// Returns the possible targets of a rule's verdict map whose key is unknown or has several marks; otherwise an empty
/// list.
fn leads<'a, R>(ways: &Ways<'_, 'a, R>, rule: &CompileRule) -> &'a [SetTarget] {
    let Some(&CompileOp::Vmap { set, ask }) = statement::ops(ways.walk, rule).last() else {
        return &[];
    };
    let compiled = ways.walk.policy.compiled;
    let found = matches::find(compiled, &ways.walk.fields, set, ask);
    match compiled.sets.get(set as usize) {
        Some(set) if matches!(found, Match::Beyond | Match::Unknown) => &set.leads,
        _ => &[],
    }
}

/// Returns those of the marks with which the target `lead` may be the result of a rule's verdict map.
fn marks_to<R>(ways: &mut Ways<R>, rule: &CompileRule, marks: MarkSet, lead: SetTarget) -> MarkSet {
    let Some(op @ &CompileOp::Vmap { set, ask }) = statement::ops(ways.walk, rule).last() else {
        return marks;
    };
    let compiled = ways.walk.policy.compiled;
    let (mut left, mut leading) = (marks, marks::NONE);
    while left != marks::NONE {
        let part = rule::together(ways, op, left);
        left &= !part;
        rule::set_marks(ways, part);
        let leads = match matches::find(compiled, &ways.walk.fields, set, ask) {
            Match::Found(element) => {
                let set = compiled.sets.get(set as usize);
                set.and_then(|set| set.targets.get(element as usize)) == Some(&lead)
            }
            Match::Beyond | Match::Unknown => true,
            Match::Missing | Match::Not => false,
        };
        if leads {
            leading |= part;
        }
    }
    leading
}

/// Records that a way reaches the end of the current chain, while other ways are still to be evaluated. Returns true if
/// the packet may be accepted from there on: there is a jump to return to, or the policy of the base chain accepts.
fn note_return<R>(ways: &mut Ways<R>) -> bool {
    let marks = ways.marks;
    let policy = frame::policy(ways.walk.policy.compiled, ways.base);
    let stack = &mut ways.walk.stack;
    let jump = stack.iter().rposition(|waiting| !waiting.fork.is_goto);
    let accepts = jump.is_some() || policy == RuleVerdict::Accept;
    for waiting in stack.iter_mut().skip(jump.unwrap_or(0)) {
        let fork = &mut waiting.fork;
        fork.joins = true;
        fork.aside |= fork.is_goto && accepts;
    }
    let end = match jump.and_then(|jump| stack.get_mut(jump)) {
        Some(waiting) => &mut waiting.fork.marks,
        None => &mut ways.returned,
    };
    *end |= marks;
    ways.returns |= jump.is_none();
    accepts
}

/// Records that a way through the base chain accepts the packet.
fn note_accept<R>(ways: &mut Ways<R>) {
    ways.accepted |= ways.marks;
    ways.accepts = true;
}

/// Records a possible target of a rule. Returns true if it is a chain, which is entered.
/// - fork: next target and marks of the rule.
fn note_lead<R: DecideRecorder>(
    ways: &mut Ways<R>,
    rule: u32,
    lead: SetTarget,
    fork: Fork,
) -> bool {
    match lead.verdict {
        RuleVerdict::Accept => note_accept(ways),
        RuleVerdict::Drop | RuleVerdict::Continue => {}
        RuleVerdict::Return => ways.aside |= note_return(ways),
        RuleVerdict::Jump | RuleVerdict::Goto => {
            let fork = Fork {
                joins: true,
                is_goto: lead.verdict == RuleVerdict::Goto,
                aside: ways.aside,
                ..fork
            };
            frame::remember(ways.walk, rule, fork);
            ways.aside = true;
            ways.walk.way += 1;
            frame::enter_newly(ways.walk, lead.chain);
            return true;
        }
    }
    false
}

/// Records the possible targets of a rule's verdict map from fork.next on. Stops at the first target that is a chain,
/// and enters it. After the last target the marks are those on the ways that continue after the rule.
fn note_leads<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule, fork: Fork) {
    let mut fork = fork;
    let first = fork.next as usize;
    rule::set_marks(ways, fork.held);
    for (&lead, next) in leads(ways, rule).iter().zip(1..).skip(first) {
        let marks = marks_to(ways, rule, fork.held, lead);
        rule::set_marks(ways, marks);
        fork.next = next;
        if lead.verdict == RuleVerdict::Continue {
            fork.marks |= marks;
        } else if marks != marks::NONE && note_lead(ways, number, lead, fork) {
            return;
        }
    }
    rule::set_marks(ways, fork.marks);
    if fork.marks == marks::NONE {
        clear_end(ways);
        frame::end_by_rule(ways.walk, RuleVerdict::Drop, number);
    }
}

/// Returns to the chain of a rule that led to another chain. Records the remaining targets of the rule's verdict map.
/// - came: true if a way reaches the end of the other chain.
fn resume<R: DecideRecorder>(ways: &mut Ways<R>, waiting: &Waiting, came: bool) {
    let mut fork = waiting.fork;
    let passes = came && fork.is_goto && note_return(ways);
    if came && !fork.is_goto {
        fork.marks |= ways.marks;
    }
    rule::set_marks(ways, fork.marks);
    ways.aside = fork.aside || passes;
    frame::go_back(ways.walk, waiting);
    if fork.next > 0 {
        let rules = &ways.walk.policy.compiled.rules;
        if let Some(rule) = rules.get(waiting.rule as usize) {
            note_leads(ways, waiting.rule, rule, fork);
        }
    }
}

/// Records the base chain's policy as the result of the ways with these marks.
fn note_policy<R>(ways: &mut Ways<R>, marks: MarkSet) {
    clear_end(ways);
    if frame::end_by_policy(ways.walk, ways.base) == RuleVerdict::Accept {
        ways.accepted |= marks;
        ways.accepts = true;
    }
}

/// Ends a way (a path through the rules) before its chain ends, and continues with another way. Returns false if there
/// is no other way.
fn end_way<R: DecideRecorder>(ways: &mut Ways<R>) -> bool {
    while let Some(waiting) = ways.walk.stack.pop() {
        if waiting.fork.joins {
            resume(ways, &waiting, false);
            if ways.marks != marks::NONE {
                return true;
            }
        }
    }
    if ways.returns {
        note_policy(ways, ways.returned);
    }
    false
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
fn end_chain<R: DecideRecorder>(ways: &mut Ways<R>) -> bool {
    let Some(waiting) = ways.walk.stack.pop() else {
        note_policy(ways, ways.returned | ways.marks);
        return false;
    };
    resume(ways, &waiting, true);
    ways.marks != marks::NONE || end_way(ways)
}

/// Ends a way by the verdict of a rule. Returns false if the base chain is finished.
fn end_by<R: DecideRecorder>(
    ways: &mut Ways<R>,
    number: u32,
    rule: &CompileRule,
    verdict: RuleVerdict,
) -> bool {
    clear_end(ways);
    frame::end_by_rule(ways.walk, verdict, number);
    if let Some(op @ CompileOp::Reject(_)) = statement::ops(ways.walk, rule).last() {
        statement::walk(ways.walk, op, &mut { NOWHERE });
    }
    if verdict == RuleVerdict::Accept {
        note_accept(ways);
    }
    end_way(ways)
}

/// Records the possible targets of a rule that may hold, and continues after the rule, or in a chain to which it may
/// lead. Returns false if the base chain is finished.
fn go_past<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule) -> bool {
    let target = target(ways, rule);
    let fork = Fork {
        marks: ways.past | ways.fails,
        held: ways.marks,
        ..NO_FORK
    };
    if target.verdict != RuleVerdict::Continue {
        if !note_lead(ways, number, target, fork) {
            rule::set_marks(ways, fork.marks);
        }
    } else if leads(ways, rule).is_empty() {
        rule::set_marks(ways, fork.marks | fork.held);
    } else {
        note_leads(ways, number, rule, fork);
    }
    ways.marks != marks::NONE || end_way(ways)
}

/// Continues at the target of a rule that holds. Returns false if the base chain is finished.
fn follow<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule) -> bool {
    let target = target(ways, rule);
    match target.verdict {
        RuleVerdict::Continue => leads(ways, rule).is_empty() || go_past(ways, number, rule),
        RuleVerdict::Accept | RuleVerdict::Drop => end_by(ways, number, rule, target.verdict),
        RuleVerdict::Return => end_chain(ways),
        RuleVerdict::Jump => {
            let aside = ways.aside;
            frame::remember(ways.walk, number, Fork { aside, ..NO_FORK });
            ways.walk.way += 1;
            frame::enter_newly(ways.walk, target.chain);
            true
        }
        RuleVerdict::Goto => {
            ways.walk.way += 1;
            frame::enter_newly(ways.walk, target.chain);
            true
        }
    }
}

/// Reports the current rule to the recorder.
/// - before: marks before the rule.
/// - may: true if the rule is reached on some ways only.
fn record<R: DecideRecorder>(
    ways: &mut Ways<R>,
    number: u32,
    rule: &CompileRule,
    holds: Holds,
    before: MarkSet,
    may: bool,
) {
    let target = target(ways, rule);
    let marks = ways.marks;
    let may = holds != Holds::No && (may || holds != Holds::Yes);
    if ways.why == DecideWhy::Unknown {
        rule::set_marks(ways, before);
    }
    statement::record(ways.walk, number, ways.statement, ways.why, &target, may);
    rule::set_marks(ways, marks);
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - from: index of the statement in the rule.
/// - is_new: true if the rule has not been reported to the recorder.
fn walk_rule<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, from: u32, is_new: bool) -> bool {
    let Some(rule) = ways.walk.policy.compiled.rules.get(number as usize) else {
        return true;
    };
    let (aside, before) = (rule::is_aside(ways), ways.marks);
    let mut read = Read::default();
    let holds = rule::evaluate(ways, rule, from, &mut read);
    if R::LISTENS && is_new {
        record(ways, number, rule, holds, before, aside);
    }
    match holds {
        Holds::No => {
            rule::set_marks(ways, ways.past | ways.fails);
            true
        }
        Holds::Closed if ways.fails != marks::NONE => {
            rule::set_marks(ways, ways.fails);
            true
        }
        Holds::Closed => {
            end_open(ways, read, false);
            end_way(ways)
        }
        Holds::Yes => follow(ways, number, rule),
        Holds::May => {
            ways.read.beyond |= read.beyond;
            ways.read.names |= read.names;
            go_past(ways, number, rule)
        }
    }
}

/// Evaluates a base chain, or the rest of it. Returns true if a way through it accepts the packet.
/// - stuck: rule at which the previous walk has ended, and at which the evaluation continues; None = it begins at the
///   first rule of the chain.
fn walk_base<R: DecideRecorder>(ways: &mut Ways<R>, base: u32, stuck: Option<u32>) -> bool {
    ways.base = base;
    (ways.accepts, ways.returns, ways.aside) = (false, false, false);
    (ways.accepted, ways.returned) = (marks::NONE, marks::NONE);
    let mut goes_on = true;
    match stuck {
        Some(rule) => {
            let from = ways.walk.stuck;
            goes_on = walk_rule(ways, rule, from, false);
        }
        None => {
            ways.walk.stack.clear();
            ways.walk.way = 0;
            frame::enter_newly(ways.walk, base);
        }
    }
    while goes_on {
        goes_on = match frame::next_rule(&mut ways.walk.frame) {
            Some(rule) => walk_rule(ways, rule, 0, true),
            None => end_chain(ways),
        };
    }
    rule::set_marks(ways, ways.accepted);
    ways.accepts
}

/// Continues from a rule of which it is unknown whether it holds, to the end of the base chains, and fills in the
/// outcome.
/// - bases: current base chain and the later ones.
/// - A way ends with drop at a rule that reads unknown values with which the settings let no packet pass. The packet is
///   accepted if each base chain has a way that accepts it; otherwise it has the outcome of the last way.
#[cold]
#[inline(never)]
pub fn go_on<R: DecideRecorder>(walk: &mut Walk<R>, settings: &DecideSettings, bases: &[u32]) {
    let names = walk.input.names.map(|names| names.state);
    let waits = names == Some(NamesState::Undecided);
    let mut values = MarkValues::new();
    let mark = fields::narrow(&walk.fields, Field::MetaMark);
    let marks = marks::one(&mut values, mark);
    let rule = walk.outcome.rule;
    let mut ways = Ways {
        walk,
        truncated_open: settings.truncated_open,
        unknown_open: match waits {
            true => settings.undecided_verdict == Verdict::Accept,
            false => settings.unknown_open,
        },
        waits,
        base: 0,
        accepts: false,
        returns: false,
        aside: false,
        values,
        marks,
        accepted: marks::NONE,
        returned: marks::NONE,
        past: marks::NONE,
        fails: marks::NONE,
        read: Read::default(),
        statement: 0,
        why: DecideWhy::Held,
    };
    clear_end(&mut ways);
    let mut stuck = Some(rule);
    let accepts = |&base: &u32| walk_base(&mut ways, base, stuck.take());
    if bases.iter().all(accepts) {
        let read = ways.read;
        end_open(&mut ways, read, true);
    }
}
