// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of a packet if a policy reads unknown values: a match that reads one may hold or not, and both ways are
//! evaluated.
//!
//! The walk follows one way after another, and stores only the places to return to. Where a rule may lead to a verdict,
//! the verdict is stored, and the walk continues as if the rule did not hold; a chain to which the rule may lead is
//! evaluated first. Rules have no effects on a way while the packet may be accepted on another way past it ("aside"):
//! only what happens however the packet is accepted is counted, limited or marked.
#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::engine::compiled::{CompileOp, CompileRule};
use crate::engine::fields;
use crate::engine::frame::{self, Fork, Frame, Mark, Waiting, Walk, NO_FORK};
use crate::engine::join::{self, JoinPoints};
use crate::engine::matches::{self, Match};
use crate::engine::rule::{self, Holds, Read, Ways};
use crate::engine::set::SetTarget;
use crate::engine::statement;
use crate::engine::types::{DecideBy, DecideRecorder, DecideSettings, DecideWhy};
use crate::names::NamesState;
use crate::packet::verdict::Verdict;
use crate::policy::{Field, Verdict as RuleVerdict, WAY_MAX};

const NOWHERE: SetTarget = SetTarget {
    verdict: RuleVerdict::Continue,
    chain: 0,
};

/// Ends the evaluation by the settings for the unknown values that were read.
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

/// Resets the outcome of the previous way.
fn clear_end<R>(ways: &mut Ways<R>) {
    let outcome = &mut ways.walk.outcome;
    (outcome.verdict, outcome.reject) = (Verdict::Drop, None);
    (outcome.undecidable, outcome.undecided) = (false, false);
}

/// Returns the target of a rule that holds; Continue for a verdict map whose key is unknown.
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

/// Returns the possible targets of a rule's verdict map whose key is unknown; otherwise none.
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

/// Records that a way reaches the end of the current chain before the others do. Returns true if the packet may be
/// accepted from there on: a rule follows, or the policy of the base chain accepts.
fn note_return<R>(ways: &mut Ways<R>) -> bool {
    let mark = rule::mark(ways);
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
        Some(waiting) => &mut waiting.fork.mark,
        None => &mut ways.returned,
    };
    *end = join::marks(&mut ways.joins, *end, mark);
    ways.returns |= jump.is_none();
    accepts
}

/// Records that a way through the base chain accepts the packet.
fn note_accept<R>(ways: &mut Ways<R>) {
    let mark = rule::mark(ways);
    ways.accepted = join::marks(&mut ways.joins, ways.accepted, mark);
    ways.accepts = true;
}

/// Enters a chain at its first rule.
fn enter<R: DecideRecorder>(ways: &mut Ways<R>, chain: u32) {
    match ways.joins.is_choosing {
        true => frame::enter(ways.walk, chain),
        false => frame::enter_newly(ways.walk, chain),
    }
}

/// Records a possible target of a rule. Returns true if it is a chain, which is entered.
/// - next: index of the verdict map's next possible target, to be recorded after that chain; 0 = none.
/// - past: mark on the way that does not lead there.
fn note_lead<R: DecideRecorder>(
    ways: &mut Ways<R>,
    rule: u32,
    lead: SetTarget,
    next: u32,
    past: Mark,
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
                next,
                mark: past,
            };
            frame::remember(ways.walk, rule, fork);
            ways.aside = true;
            ways.walk.way += 1;
            enter(ways, lead.chain);
            return true;
        }
    }
    false
}

/// Records the possible targets of a rule's verdict map from index n on. Stops at the first target that is a chain, and
/// enters it.
fn note_leads<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule, n: u32) {
    for (lead, next) in leads(ways, rule).iter().zip(1..).skip(n as usize) {
        if note_lead(ways, number, *lead, next, rule::mark(ways)) {
            return;
        }
    }
}

/// Returns to the chain of a rule that led to another chain.
/// - came: true if a way reaches the end of that other chain.
fn resume<R: DecideRecorder>(ways: &mut Ways<R>, waiting: &Waiting, came: bool) {
    let passes = came && waiting.fork.is_goto && note_return(ways);
    let came = came && !waiting.fork.is_goto;
    let end = if came { rule::mark(ways) } else { Mark::None };
    let met = join::marks(&mut ways.joins, waiting.fork.mark, end);
    rule::set_mark(ways, met);
    ways.aside = waiting.fork.aside || passes;
    frame::go_back(ways.walk, waiting);
    if waiting.fork.next > 0 {
        let rules = &ways.walk.policy.compiled.rules;
        if let Some(rule) = rules.get(waiting.rule as usize) {
            note_leads(ways, waiting.rule, rule, waiting.fork.next);
        }
    }
}

/// Records that ways have reached the end of the base chain, with a mark.
fn note_policy<R>(ways: &mut Ways<R>, mark: Mark) {
    clear_end(ways);
    if frame::end_by_policy(ways.walk, ways.base) == RuleVerdict::Accept {
        ways.accepted = join::marks(&mut ways.joins, ways.accepted, mark);
        ways.accepts = true;
    }
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
fn end_chain<R: DecideRecorder>(ways: &mut Ways<R>) -> bool {
    let Some(waiting) = ways.walk.stack.pop() else {
        let mark = rule::mark(ways);
        let met = join::marks(&mut ways.joins, ways.returned, mark);
        note_policy(ways, met);
        return false;
    };
    resume(ways, &waiting, true);
    true
}

/// Ends a way within the current chain, and continues with another one. Returns false if there is none.
fn end_way<R: DecideRecorder>(ways: &mut Ways<R>) -> bool {
    while let Some(waiting) = ways.walk.stack.pop() {
        if waiting.fork.joins {
            resume(ways, &waiting, false);
            return true;
        }
    }
    if ways.returns {
        note_policy(ways, ways.returned);
    }
    false
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

/// Continues at the target of a rule that holds. Returns false if the base chain is finished.
fn follow<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule) -> bool {
    let target = target(ways, rule);
    match target.verdict {
        RuleVerdict::Continue => true,
        RuleVerdict::Accept | RuleVerdict::Drop => end_by(ways, number, rule, target.verdict),
        RuleVerdict::Return => end_chain(ways),
        RuleVerdict::Jump => {
            let aside = ways.aside;
            frame::remember(ways.walk, number, Fork { aside, ..NO_FORK });
            ways.walk.way += 1;
            enter(ways, target.chain);
            true
        }
        RuleVerdict::Goto => {
            ways.walk.way += 1;
            enter(ways, target.chain);
            true
        }
    }
}

/// Reports the current rule.
/// - may: true if it is reached on some ways only.
fn record<R: DecideRecorder>(
    ways: &mut Ways<R>,
    number: u32,
    rule: &CompileRule,
    holds: Holds,
    may: bool,
) {
    let target = target(ways, rule);
    let may = holds != Holds::No && (may || holds != Holds::Yes);
    statement::record(ways.walk, number, ways.statement, ways.why, &target, may);
}

/// Records the possible targets of a rule that may hold, and continues after the rule, or in a chain to which it may lead.
fn go_past<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule) {
    let target = target(ways, rule);
    let past = match ways.before {
        Mark::None => rule::mark(ways),
        before => before,
    };
    if target.verdict == RuleVerdict::Continue {
        let mark = rule::mark(ways);
        let met = join::marks(&mut ways.joins, past, mark);
        rule::set_mark(ways, met);
        note_leads(ways, number, rule, 0);
    } else if !note_lead(ways, number, target, 0, past) {
        rule::set_mark(ways, past);
    }
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - is_new: true if it has not been reported.
fn walk_rule<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, from: u32, is_new: bool) -> bool {
    let Some(rule) = ways.walk.policy.compiled.rules.get(number as usize) else {
        return true;
    };
    let aside = rule::is_aside(ways);
    let mut read = Read::default();
    let holds = rule::evaluate(ways, rule, from, &mut read);
    if R::LISTENS && is_new && !ways.joins.is_choosing {
        record(ways, number, rule, holds, aside);
    }
    match holds {
        Holds::No => {
            let mark = rule::mark(ways);
            let met = join::marks(&mut ways.joins, ways.before, mark);
            rule::set_mark(ways, met);
            true
        }
        Holds::Yes => follow(ways, number, rule),
        Holds::Closed => {
            end_open(ways, read, false);
            end_way(ways)
        }
        Holds::May => {
            ways.read.beyond |= read.beyond;
            ways.read.names |= read.names;
            go_past(ways, number, rule);
            true
        }
    }
}

/// Evaluates a base chain, or the rest of it. Returns true if it may accept.
/// - stuck: rule at which the previous walk has ended; None = the chain is entered.
fn walk_base<R: DecideRecorder>(ways: &mut Ways<R>, base: u32, stuck: Option<u32>) -> bool {
    ways.base = base;
    (ways.accepts, ways.returns, ways.aside) = (false, false, false);
    (ways.accepted, ways.returned) = (Mark::None, Mark::None);
    let mut goes_on = true;
    match stuck {
        Some(rule) => {
            let from = ways.walk.stuck;
            goes_on = walk_rule(ways, rule, from, false);
        }
        None => {
            ways.walk.stack.clear();
            ways.walk.way = 0;
            enter(ways, base);
        }
    }
    while goes_on {
        goes_on = match frame::next_rule(&mut ways.walk.frame) {
            Some(rule) => walk_rule(ways, rule, 0, true),
            None => end_chain(ways),
        };
    }
    rule::set_mark(ways, ways.accepted);
    ways.accepts
}

/// Place at which the evaluation of several ways begins.
struct Start<'a> {
    frame: Frame<'a>,
    stack: ArrayVec<Waiting, WAY_MAX>,
    /// Rule of which it is unknown whether it holds, and its first unknown statement.
    rule: u32,
    stuck: u32,
    way: u32,
    mark: Mark,
}

/// Evaluates base chains from a place on. Returns true if each has a way that accepts the packet.
/// - bases: current base chain and the later ones.
fn walk_bases<R: DecideRecorder>(ways: &mut Ways<R>, rule: u32, bases: &[u32]) -> bool {
    let mut stuck = Some(rule);
    clear_end(ways);
    bases
        .iter()
        .all(|&base| walk_base(ways, base, stuck.take()))
}

/// Returns true if the packet is accepted with one of the marks at each join point; otherwise the outcome is that of the
/// last choice.
fn is_accepted<'a, R: DecideRecorder>(
    ways: &mut Ways<'_, 'a, R>,
    start: &Start<'a>,
    bases: &[u32],
) -> bool {
    join::choose(&mut ways.joins);
    loop {
        let walk = &mut *ways.walk;
        walk.frame = start.frame.clone();
        walk.stack = start.stack.clone();
        (walk.stuck, walk.way) = (start.stuck, start.way);
        rule::set_mark(ways, start.mark);
        if walk_bases(ways, start.rule, bases) {
            return true;
        }
        if !join::choose_again(&mut ways.joins) {
            return false;
        }
    }
}

/// Evaluates base chains whose rules read the mark, from the current place on. Returns true if the packet is accepted.
/// - bases: current base chain and the later ones.
#[inline(never)]
fn walk_marked<R: DecideRecorder>(ways: &mut Ways<R>, bases: &[u32]) -> bool {
    let start = Start {
        frame: ways.walk.frame.clone(),
        stack: ways.walk.stack.clone(),
        rule: ways.walk.outcome.rule,
        stuck: ways.walk.stuck,
        way: ways.walk.way,
        mark: rule::mark(ways),
    };
    if !walk_bases(ways, start.rule, bases) {
        return false;
    }
    let read = ways.read;
    let accepts = ways.joins.count == 0 || is_accepted(ways, &start, bases);
    ways.read = read;
    accepts
}

/// Continues from a rule of which it is unknown whether it holds, to the end of the base chains, and fills in the
/// outcome.
/// - bases: current base chain and the later ones.
/// - A way ends with drop at a rule that reads unknown values with which the settings let no packet pass. The packet is
///   accepted if each base chain has a way that accepts it; otherwise it is dropped with the outcome of the last way.
#[cold]
#[inline(never)]
pub fn go_on<R: DecideRecorder>(walk: &mut Walk<R>, settings: &DecideSettings, bases: &[u32]) {
    let names = walk.input.names.map(|names| names.state);
    let waits = names == Some(NamesState::Undecided);
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
        accepted: Mark::None,
        returned: Mark::None,
        before: Mark::None,
        joins: JoinPoints::default(),
        read: Read::default(),
        statement: 0,
        why: DecideWhy::Held,
    };
    let reads_mark = ways.walk.policy.compiled.wanted & fields::bit(Field::MetaMark) != 0;
    let accepts = match reads_mark {
        true => walk_marked(&mut ways, bases),
        false => {
            let rule = ways.walk.outcome.rule;
            walk_bases(&mut ways, rule, bases)
        }
    };
    if accepts {
        let read = ways.read;
        end_open(&mut ways, read, true);
    }
}
