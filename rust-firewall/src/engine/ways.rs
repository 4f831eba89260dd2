// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of a packet if a policy reads unknown values: a match that reads one may hold or not, and both ways are
//! evaluated.
//!
//! The walk follows one way after another, and stores only the places to return to. Where a rule may lead to a verdict,
//! the verdict is stored, and the walk continues as if the rule did not hold; a chain to which the rule may lead is
//! evaluated first. Rules have no effects on a way while the packet may be accepted on another way past it ("aside"):
//! only what happens however the packet is accepted is counted, limited or marked.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{CompileAsk, CompileOp, CompileRule};
use crate::engine::fields;
use crate::engine::frame::{self, join_marks, Fork, Mark, Waiting, Walk, NO_FORK};
use crate::engine::matches::{self, Match};
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

/// Whether a rule holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    No,
    May,
    Yes,
    /// The rule may hold, but a packet with these unknown values must not pass.
    Closed,
}

/// Flags for the kinds of unknown values: true if the result of a rule depends on a value of this kind.
#[derive(Clone, Copy, Default)]
struct Read {
    /// True for fields beyond the captured bytes.
    beyond: bool,
    names: bool,
}

/// State of a walk along several ways.
struct Ways<'w, 'a, R> {
    walk: &'w mut Walk<'a, R>,
    /// Whether a packet may pass where a rule reads a field beyond the captured bytes, or an unknown name.
    truncated_open: bool,
    unknown_open: bool,
    /// True if the names may still arrive.
    waits: bool,
    /// Current base chain.
    base: u32,
    /// True if a way through the base chain accepts the packet.
    accepts: bool,
    /// True if a way reaches the end of the base chain.
    returns: bool,
    /// True until the current chain ends, if the packet may be accepted on another way.
    aside: bool,
    /// Mark on the ways that the base chain accepts, and on those that reach its end before the last one.
    accepted: Mark,
    returned: Mark,
    /// Mark before the first statement that sets it only if the current rule holds.
    before: Mark,
    /// Unknown values that the rules so far have read.
    read: Read,
    /// First statement of the current rule whose result is unknown, and the reason.
    statement: u32,
    why: DecideWhy,
}

/// Returns true if the current effects would happen on some ways only.
fn is_aside<R>(ways: &Ways<R>) -> bool {
    ways.aside || ways.accepts
}

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

/// Returns true if the --fail modes accept packets of which a rule reads these unknown values.
fn is_open<R>(ways: &Ways<R>, read: Read) -> bool {
    (!read.beyond || ways.truncated_open) && (!read.names || ways.unknown_open)
}

/// Returns the mark on the current way.
fn mark<R>(ways: &Ways<R>) -> Mark {
    match fields::is_present(&ways.walk.fields, Field::MetaMark) {
        true => Mark::Known(fields::narrow(&ways.walk.fields, Field::MetaMark)),
        false => Mark::Unknown,
    }
}

/// Sets the mark on the current way, but not the packet's.
fn set_mark<R>(ways: &mut Ways<R>, mark: Mark) {
    let fields = &mut ways.walk.fields;
    match mark {
        Mark::Known(value) => fields::set(fields, Field::MetaMark, value),
        Mark::None | Mark::Unknown => {
            fields.present &= !fields::bit(Field::MetaMark);
            fields.unknown |= fields::bit(Field::MetaMark);
        }
    }
}

/// Sets the mark on the current way by a statement.
/// - may: true if the statement is executed only if the rule holds; then the mark before it is stored.
fn change_mark<R>(ways: &mut Ways<R>, may: bool, to: Mark) {
    if may && ways.before == Mark::None {
        ways.before = mark(ways);
    }
    set_mark(ways, to);
}

/// Records that it is unknown whether the current rule holds, because of one of its statements.
fn note_open<R>(ways: &mut Ways<R>, read: &mut Read, statement: u32, why: DecideWhy, fields: u64) {
    if ways.why == DecideWhy::Held {
        ways.statement = statement;
        ways.why = why;
    }
    let known = &ways.walk.fields;
    // An unknown mark was set by a rule on some ways; it is no unknown name.
    let names = known.unknown & !known.present & !fields::bit(Field::MetaMark);
    read.beyond |= why == DecideWhy::Beyond || fields & known.beyond != 0;
    read.names |= fields & names != 0;
}

/// Evaluates a map that sets the mark on some ways only. Returns the reason why the rule ends there.
fn mark_map<R>(ways: &mut Ways<R>, set: u32, ask: CompileAsk, may: bool) -> DecideWhy {
    let compiled = ways.walk.policy.compiled;
    let found = matches::find(compiled, &ways.walk.fields, set, ask);
    if let Match::Found(element) = found {
        let marks = compiled.sets.get(set as usize).map(|set| &set.marks);
        let value = marks.and_then(|marks| marks.get(element as usize));
        change_mark(
            ways,
            may,
            value.map_or(Mark::Unknown, |&value| Mark::Known(value)),
        );
    }
    matches::why_not(found)
}

/// Returns the mark after a statement that keeps some of its bits and toggles others.
fn changed_mark<R>(ways: &Ways<R>, keep: u32, toggle: u32) -> Mark {
    match mark(ways) {
        Mark::Known(value) => Mark::Known((value & keep) ^ toggle),
        _ if keep == 0 => Mark::Known(toggle),
        _ => Mark::Unknown,
    }
}

/// Executes a statement that is no verdict. Returns the reason why the rule ends there.
/// - may: true if the rule may hold; set by a limit or quota that may hold or not.
fn walk_statement<R>(ways: &mut Ways<R>, op: &CompileOp, may: &mut bool) -> DecideWhy {
    let aside = *may || is_aside(ways);
    let mut none = NOWHERE;
    match op {
        CompileOp::Counter(_) | CompileOp::Log(_) if aside => DecideWhy::Held,
        CompileOp::Limit(_) | CompileOp::Quota(_) if aside => {
            *may = true;
            DecideWhy::Held
        }
        CompileOp::Mark { keep, toggle } => {
            let changed = changed_mark(ways, *keep, *toggle);
            if !aside {
                statement::walk(ways.walk, op, &mut none);
            }
            change_mark(ways, *may, changed);
            DecideWhy::Held
        }
        CompileOp::MarkMap { set, ask } if aside => mark_map(ways, *set, *ask, *may),
        _ => statement::walk(ways.walk, op, &mut none),
    }
}

/// Returns whether a rule holds that has read unknown values with which no packet may pass, before a statement with an
/// effect. It does not hold if the statement is a map of names that certainly has no element for the packet.
fn closed<R>(ways: &mut Ways<R>, op: &CompileOp, number: u32) -> Holds {
    let why = statement::look_up(ways.walk, op);
    if matches!(
        why,
        DecideWhy::Held | DecideWhy::Beyond | DecideWhy::Unknown
    ) {
        return Holds::Closed;
    }
    (ways.statement, ways.why) = (number, why);
    Holds::No
}

/// Returns whether a rule holds from a statement on; executes its effects.
/// - read: out: unknown values that decide it.
fn try_rule<R>(ways: &mut Ways<R>, rule: &CompileRule, from: u32, read: &mut Read) -> Holds {
    let compiled = ways.walk.policy.compiled;
    let needs = statement::meets(ways.walk, rule.needs);
    let mut may = needs == DecideWhy::Beyond;
    (ways.statement, ways.why, ways.before) = (0, needs, Mark::None);
    match needs {
        DecideWhy::Held => ways.statement = rule.count,
        DecideWhy::Beyond => read.beyond = true,
        _ => return Holds::No,
    }
    let ops = statement::ops(ways.walk, rule).iter().zip(0..);
    for (op, number) in ops.skip(from as usize) {
        if !op.is_match() && !is_open(ways, *read) {
            return closed(ways, op, number);
        }
        if matches!(op, CompileOp::Verdict { .. } | CompileOp::Reject(_)) {
            break;
        }
        let why = walk_statement(ways, op, &mut may);
        match why {
            DecideWhy::Held => {}
            DecideWhy::Beyond | DecideWhy::Unknown => {
                may = true;
                note_open(ways, read, number, why, matches::looks_at(compiled, op));
                if matches!(op, CompileOp::MarkMap { .. }) {
                    change_mark(ways, true, Mark::Unknown);
                }
            }
            other => {
                (ways.statement, ways.why) = (number, other);
                return Holds::No;
            }
        }
    }
    match (may, is_open(ways, *read)) {
        (_, false) => Holds::Closed,
        (false, true) => Holds::Yes,
        (true, true) => Holds::May,
    }
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
    let mark = mark(ways);
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
    *end = join_marks(*end, mark);
    ways.returns |= jump.is_none();
    accepts
}

/// Records that a way through the base chain accepts the packet.
fn note_accept<R>(ways: &mut Ways<R>) {
    ways.accepted = join_marks(ways.accepted, mark(ways));
    ways.accepts = true;
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
            frame::enter_newly(ways.walk, lead.chain);
            return true;
        }
    }
    false
}

/// Records the possible targets of a rule's verdict map from index n on. Stops at the first target that is a chain, and
/// enters it.
fn note_leads<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, rule: &CompileRule, n: u32) {
    for (lead, next) in leads(ways, rule).iter().zip(1..).skip(n as usize) {
        if note_lead(ways, number, *lead, next, mark(ways)) {
            return;
        }
    }
}

/// Returns to the chain of a rule that led to another chain.
/// - came: true if a way reaches the end of that other chain.
fn resume<R: DecideRecorder>(ways: &mut Ways<R>, waiting: &Waiting, came: bool) {
    let passes = came && waiting.fork.is_goto && note_return(ways);
    let came = came && !waiting.fork.is_goto;
    let end = if came { mark(ways) } else { Mark::None };
    set_mark(ways, join_marks(waiting.fork.mark, end));
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
        ways.accepted = join_marks(ways.accepted, mark);
        ways.accepts = true;
    }
}

/// Ends a way at the end of the current chain. Returns false if the base chain is finished.
fn end_chain<R: DecideRecorder>(ways: &mut Ways<R>) -> bool {
    let Some(waiting) = ways.walk.stack.pop() else {
        note_policy(ways, join_marks(ways.returned, mark(ways)));
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
        Mark::None => mark(ways),
        before => before,
    };
    if target.verdict == RuleVerdict::Continue {
        set_mark(ways, join_marks(past, mark(ways)));
        note_leads(ways, number, rule, 0);
    } else if !note_lead(ways, number, target, 0, past) {
        set_mark(ways, past);
    }
}

/// Evaluates a rule from a statement on. Returns false if the base chain is finished.
/// - is_new: true if it has not been reported.
fn walk_rule<R: DecideRecorder>(ways: &mut Ways<R>, number: u32, from: u32, is_new: bool) -> bool {
    let Some(rule) = ways.walk.policy.compiled.rules.get(number as usize) else {
        return true;
    };
    let aside = is_aside(ways);
    let mut read = Read::default();
    let holds = try_rule(ways, rule, from, &mut read);
    if R::LISTENS && is_new {
        record(ways, number, rule, holds, aside);
    }
    match holds {
        Holds::No => {
            set_mark(ways, join_marks(ways.before, mark(ways)));
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
            frame::enter_newly(ways.walk, base);
        }
    }
    while goes_on {
        goes_on = match frame::next_rule(&mut ways.walk.frame) {
            Some(rule) => walk_rule(ways, rule, 0, true),
            None => end_chain(ways),
        };
    }
    set_mark(ways, ways.accepted);
    ways.accepts
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
    let mut stuck = Some(walk.outcome.rule);
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
        read: Read::default(),
        statement: 0,
        why: DecideWhy::Held,
    };
    clear_end(&mut ways);
    for &base in bases {
        if !walk_base(&mut ways, base, stuck.take()) {
            return;
        }
    }
    let read = ways.read;
    end_open(&mut ways, read, true);
}
