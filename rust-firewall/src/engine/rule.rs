// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of a rule that may read unknown values: whether it holds on the current ways (paths through the rules),
//! and its effects.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{CompileOp, CompileRule};
use crate::engine::fields;
use crate::engine::frame::Walk;
use crate::engine::marks::{self, MarkSet, MarkValues};
use crate::engine::matches::{self, Match};
use crate::engine::set::SetTarget;
use crate::engine::statement;
use crate::engine::types::DecideWhy;
use crate::policy::{Field, Verdict as RuleVerdict};

const NOWHERE: SetTarget = SetTarget {
    verdict: RuleVerdict::Continue,
    chain: 0,
};

/// Result of a rule for a packet with unknown values: no, may, yes, or closed (may hold, but the packet must not pass).
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
    /// True if the result depends on a field beyond the captured bytes.
    pub beyond: bool,
    pub names: bool,
}

/// State of an evaluation that follows several ways through the rules, because it is unknown whether some rules hold.
pub struct Ways<'w, 'a, R> {
    pub walk: &'w mut Walk<'a, R>,
    /// True if a packet may pass although a rule reads a field beyond the captured bytes.
    pub truncated_open: bool,
    /// True if a packet may pass although a rule reads an unknown name.
    pub unknown_open: bool,
    /// True if the client may still send the names.
    pub waits: bool,
    /// Number of the current base chain.
    pub base: u32,
    /// True if a way through the base chain accepts the packet.
    pub accepts: bool,
    /// True if a way reaches the end of the base chain.
    pub returns: bool,
    /// True if rules have no effects until the current chain ends, because the packet may be accepted on another way.
    pub aside: bool,
    /// Values of the mark: bit n of each set of marks stands for the value with the index n.
    pub values: MarkValues,
    /// Values that the packet's mark may have on the current ways.
    pub marks: MarkSet,
    /// Values that the mark may have on the ways on which the base chain accepts the packet.
    pub accepted: MarkSet,
    /// Values that the mark may have on the ways that reach the end of the base chain before the last way.
    pub returned: MarkSet,
    /// Values that the mark may have on the ways on which it is unknown whether the current rule holds.
    pub past: MarkSet,
    /// Values that the mark may have on the ways on which the current rule certainly does not hold.
    pub fails: MarkSet,
    /// Kinds of the unknown values that made results of rules `Holds::May`.
    pub read: Read,
    /// Index of the statement that decided the current rule's result: it did not hold, or is the first with an unknown
    /// result. Number of statements if all held; 0 if the rule's conditions decided.
    pub statement: u32,
    /// Reason for the current rule's result.
    pub why: DecideWhy,
}

/// Returns true if the current rule must have no effects, because the packet may be accepted on another way.
pub fn is_aside<R>(ways: &Ways<R>) -> bool {
    ways.aside || ways.accepts
}

/// Returns true if --fail and --undecided accept packets of which a rule reads these unknown values.
fn is_open<R>(ways: &Ways<R>, read: Read) -> bool {
    (!read.beyond || ways.truncated_open) && (!read.names || ways.unknown_open)
}

/// Stores the mark on the current ways in the fields that statements read. If the ways have no single known mark,
/// stores the packet's mark, and makes the field unknown.
fn show_marks<R>(ways: &mut Ways<R>) {
    let fields = &mut ways.walk.fields;
    let value = marks::value(&ways.values, ways.marks);
    let shown = value.unwrap_or(ways.walk.outcome.mark);
    fields::set(fields, Field::MetaMark, shown);
    if value.is_none() {
        fields.present &= !fields::bit(Field::MetaMark);
        fields.unknown |= fields::bit(Field::MetaMark);
    }
}

/// Sets the marks on the current ways. The packet's mark in the outcome stays unchanged.
pub fn set_marks<R>(ways: &mut Ways<R>, marks: MarkSet) {
    if marks != ways.marks {
        ways.marks = marks;
        show_marks(ways);
    }
}

/// Returns those of the marks for which a statement can be executed in one step: all of them, or only the first one if
/// the statement reads the mark.
pub fn together<R>(ways: &Ways<R>, op: &CompileOp, marks: MarkSet) -> MarkSet {
    let reads = || matches::looks_at(ways.walk.policy.compiled, op) & fields::bit(Field::MetaMark);
    let first = marks::first(marks);
    match marks != first && reads() != 0 {
        true => first,
        false => marks,
    }
}

/// Records in ways and read that it is unknown whether the current rule holds, because of one of its statements.
/// - fields: bits of the fields that the statement reads; 0 if only the mark decides.
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

/// Executes a statement that sets the mark by a map; if the map's key is unknown, the mark may have any value of the
/// map. Returns `Held`, `Beyond` or `Unknown`, or the reason why the rule does not hold.
/// - aside: true if the mark in the outcome stays unchanged.
fn mark_map<R>(ways: &mut Ways<R>, op: &CompileOp, aside: bool) -> DecideWhy {
    let &CompileOp::MarkMap { set, ask } = op else {
        return DecideWhy::Missing;
    };
    let compiled = ways.walk.policy.compiled;
    let found = matches::find(compiled, &ways.walk.fields, set, ask);
    let Some(set) = compiled.sets.get(set as usize) else {
        return DecideWhy::Missing;
    };
    let marks = match found {
        Match::Found(element) => {
            let mark = set.marks.get(element as usize);
            mark.map_or(marks::ANY, |&mark| marks::one(&mut ways.values, mark))
        }
        Match::Beyond | Match::Unknown => marks::all(&mut ways.values, &set.possible),
        Match::Missing | Match::Not => return matches::why_not(found),
    };
    if !aside {
        statement::walk(ways.walk, op, &mut { NOWHERE });
    }
    ways.marks = marks;
    show_marks(ways);
    matches::why_not(found)
}

/// Executes a statement other than a verdict or reject. Returns `Held`, `Beyond` or `Unknown`, or the reason why the
/// rule does not hold.
/// - aside: true to omit the effects of the statement. The result for a limit or quota is then `Held`, and the current
///   marks are added to `ways.past`: it is unknown whether the rule holds.
fn walk_statement<R>(ways: &mut Ways<R>, op: &CompileOp, aside: bool) -> DecideWhy {
    let mut none = NOWHERE;
    match op {
        CompileOp::Counter(_) | CompileOp::Log(_) if aside => DecideWhy::Held,
        CompileOp::Limit(_) | CompileOp::Quota(_) if aside => {
            ways.past |= ways.marks;
            DecideWhy::Held
        }
        CompileOp::Mark { keep, toggle } => {
            ways.marks = marks::changed(&mut ways.values, ways.marks, *keep, *toggle);
            if !aside {
                statement::walk(ways.walk, op, &mut none);
            }
            show_marks(ways);
            DecideWhy::Held
        }
        CompileOp::MarkMap { .. } => mark_map(ways, op, aside),
        _ => statement::walk(ways.walk, op, &mut none),
    }
}

/// Executes, for the current marks, a statement other than a verdict or reject. Returns `Held` if the rule may still
/// hold, otherwise the reason why it does not hold.
/// - number: index of the statement in the rule.
/// - aside: true to omit the effects of the statement.
/// - read: in/out: kinds of unknown values on which the result of the rule depends.
fn walk_marks<R>(
    ways: &mut Ways<R>,
    op: &CompileOp,
    number: u32,
    aside: bool,
    read: &mut Read,
) -> DecideWhy {
    let before = ways.marks;
    let why = walk_statement(ways, op, aside);
    match why {
        DecideWhy::Held => {}
        DecideWhy::Beyond | DecideWhy::Unknown => {
            let fields = matches::looks_at(ways.walk.policy.compiled, op);
            note_open(ways, read, number, why, fields);
            ways.past |= before;
        }
        _ => {
            ways.fails |= before;
            return why;
        }
    }
    DecideWhy::Held
}

/// Executes a statement that reads the mark, without its effects, once for each of the current marks. Returns `Held` if
/// the rule may still hold with one of them, otherwise the reason why it does not hold.
#[cold]
#[inline(never)]
fn walk_each<R>(ways: &mut Ways<R>, op: &CompileOp, number: u32, read: &mut Read) -> DecideWhy {
    let before = ways.marks;
    let (mut left, mut held) = (before, marks::NONE);
    let mut failed = DecideWhy::Held;
    while left != marks::NONE {
        let mark = marks::first(left);
        left &= !mark;
        set_marks(ways, mark);
        match walk_marks(ways, op, number, true, read) {
            DecideWhy::Held => held |= ways.marks,
            why => failed = why,
        }
    }
    if held == marks::NONE {
        set_marks(ways, before);
        return failed;
    }
    if failed != DecideWhy::Held {
        note_open(ways, read, number, DecideWhy::Unknown, 0);
    }
    set_marks(ways, held);
    DecideWhy::Held
}

/// Returns the result of a rule at a statement with an effect, if the rule has read unknown values with which no packet
/// may pass: `No` if the statement is a map with names in its key that certainly has no element for the packet,
/// otherwise `Closed`.
fn closed<R>(ways: &mut Ways<R>, op: &CompileOp, number: u32) -> Holds {
    let why = statement::look_up(ways.walk, op);
    if matches!(
        why,
        DecideWhy::Held | DecideWhy::Beyond | DecideWhy::Unknown
    ) {
        return Holds::Closed;
    }
    (ways.statement, ways.why) = (number, why);
    ways.fails |= ways.marks;
    Holds::No
}

/// Evaluates a rule from a statement on, and returns whether it holds. Statements before its verdict have effects only
/// while it is certain that the rule holds and that the packet is not accepted on another way. Afterwards the marks are
/// those of the ways on which the rule may hold, if there are any.
/// - from: index of the statement in the rule.
/// - read: in/out: kinds of unknown values on which the result of the rule depends; at first none.
pub fn evaluate<R>(ways: &mut Ways<R>, rule: &CompileRule, from: u32, read: &mut Read) -> Holds {
    let needs = statement::meets(ways.walk, rule.needs);
    (ways.statement, ways.why) = (0, needs);
    (ways.past, ways.fails) = (marks::NONE, marks::NONE);
    match needs {
        DecideWhy::Held => ways.statement = rule.count,
        DecideWhy::Beyond => {
            read.beyond = true;
            ways.past = ways.marks;
        }
        _ => {
            ways.fails = ways.marks;
            return Holds::No;
        }
    }
    let ops = statement::ops(ways.walk, rule).iter().zip(0..);
    for (op, number) in ops.skip(from as usize) {
        if !op.is_match() && !is_open(ways, *read) {
            return closed(ways, op, number);
        }
        if matches!(op, CompileOp::Verdict { .. } | CompileOp::Reject(_)) {
            break;
        }
        let why = if together(ways, op, ways.marks) == ways.marks {
            let aside = ways.past | ways.fails != marks::NONE || is_aside(ways);
            walk_marks(ways, op, number, aside, read)
        } else {
            walk_each(ways, op, number, read)
        };
        if why != DecideWhy::Held {
            (ways.statement, ways.why) = (number, why);
            return Holds::No;
        }
    }
    match (ways.past | ways.fails, is_open(ways, *read)) {
        (_, false) => Holds::Closed,
        (marks::NONE, true) => Holds::Yes,
        (_, true) => Holds::May,
    }
}
