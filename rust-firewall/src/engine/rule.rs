// SPDX-License-Identifier: GPL-2.0-or-later
//! A rule that may read unknown values: whether it holds on a way, and its effects.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{CompileAsk, CompileOp, CompileRule};
use crate::engine::fields;
use crate::engine::frame::{Mark, Walk};
use crate::engine::join::JoinPoints;
use crate::engine::matches::{self, Match};
use crate::engine::set::SetTarget;
use crate::engine::statement;
use crate::engine::types::DecideWhy;
use crate::policy::{Field, Verdict as RuleVerdict};

const NOWHERE: SetTarget = SetTarget {
    verdict: RuleVerdict::Continue,
    chain: 0,
};

/// Whether a rule holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    No,
    May,
    Yes,
    /// The rule may hold, but a packet with these unknown values must not pass.
    Closed,
}

/// Flags for the kinds of unknown values: true if the result of a rule depends on a value of this kind.
#[derive(Clone, Copy, Default)]
pub struct Read {
    /// True for fields beyond the captured bytes.
    pub beyond: bool,
    pub names: bool,
}

/// State of a walk along several ways.
pub struct Ways<'w, 'a, R> {
    pub walk: &'w mut Walk<'a, R>,
    /// Whether a packet may pass where a rule reads a field beyond the captured bytes, or an unknown name.
    pub truncated_open: bool,
    pub unknown_open: bool,
    /// True if the names may still arrive.
    pub waits: bool,
    /// Current base chain.
    pub base: u32,
    /// True if a way through the base chain accepts the packet.
    pub accepts: bool,
    /// True if a way reaches the end of the base chain.
    pub returns: bool,
    /// True until the current chain ends, if the packet may be accepted on another way.
    pub aside: bool,
    /// Mark on the ways that the base chain accepts, and on those that reach its end before the last one.
    pub accepted: Mark,
    pub returned: Mark,
    /// Mark before the first statement that sets it only if the current rule holds.
    pub before: Mark,
    pub joins: JoinPoints,
    /// Unknown values that the rules so far have read.
    pub read: Read,
    /// First statement of the current rule whose result is unknown, and the reason.
    pub statement: u32,
    pub why: DecideWhy,
}

/// Returns true if the current effects would happen on some ways only.
pub fn is_aside<R>(ways: &Ways<R>) -> bool {
    ways.aside || ways.accepts || ways.joins.is_choosing
}

/// Returns true if the --fail modes accept packets of which a rule reads these unknown values.
fn is_open<R>(ways: &Ways<R>, read: Read) -> bool {
    (!read.beyond || ways.truncated_open) && (!read.names || ways.unknown_open)
}

/// Returns the mark on the current way.
pub fn mark<R>(ways: &Ways<R>) -> Mark {
    match fields::is_present(&ways.walk.fields, Field::MetaMark) {
        true => Mark::Known(fields::narrow(&ways.walk.fields, Field::MetaMark)),
        false => Mark::Unknown,
    }
}

/// Sets the mark on the current way, but not the packet's.
pub fn set_mark<R>(ways: &mut Ways<R>, mark: Mark) {
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
pub fn evaluate<R>(ways: &mut Ways<R>, rule: &CompileRule, from: u32, read: &mut Read) -> Holds {
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
