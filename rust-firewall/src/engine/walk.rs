// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluation of the rules of a compiled policy for a packet.
#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::engine::compiled::{CompileReach, CompileRule};
use crate::engine::dependency::READS_NAMES;
use crate::engine::fields::{self, Fields};
use crate::engine::flow::DecidePolicy;
use crate::engine::frame::{self, Frame, Walk, NO_FORK};
use crate::engine::matches;
use crate::engine::set::SetTarget;
use crate::engine::statement;
use crate::engine::types::{DecideInput, DecideOutcome, DecideRecorder, DecideSettings, DecideWhy};
use crate::engine::ways;
use crate::packet::verdict::Verdict;
use crate::policy::Verdict as RuleVerdict;

const NOWHERE: SetTarget = SetTarget {
    verdict: RuleVerdict::Continue,
    chain: 0,
};

/// Number that stands for the end of a chain: greater than the number of any rule.
const NO_RULE: u32 = u32::MAX;

/// Evaluates the rest of a rule that reads a field beyond the captured bytes or an unknown name, up to its first
/// statement with an effect. If another match or a map of names fails, the rule does not hold, whatever the unknown
/// value is.
/// - statement: in: index of the statement with the unknown value, 0 if a condition is unknown; out: index of the match
///   or map that fails, if one fails.
/// - why: `Beyond` or `Unknown`.
/// - target: out: `Drop` if no match or map fails.
/// - Returns the reason why a match or map fails. Otherwise returns `why`. Then walk.stuck is the statement, and the
///   outcome says which kinds of unknown values the rule reads (undecidable, undecided).
#[cold]
#[inline(never)]
fn look_on<R>(
    walk: &mut Walk<R>,
    rule: &CompileRule,
    statement: &mut u32,
    why: DecideWhy,
    target: &mut SetTarget,
) -> DecideWhy {
    let compiled = walk.policy.compiled;
    let ops = statement::ops(walk, rule);
    let mut behind = ops.iter().zip(0..).skip(*statement as usize).peekable();
    let first = behind.peek();
    let mut read = first.map_or(0, |(op, _)| matches::looks_at(compiled, op));
    for (op, number) in behind {
        let found = match op.is_match() {
            true => statement::walk(walk, op, target),
            false => statement::look_up(walk, op),
        };
        let is_unknown = matches!(found, DecideWhy::Beyond | DecideWhy::Unknown);
        if found != DecideWhy::Held && !is_unknown {
            *statement = number;
            return found;
        }
        if !op.is_match() {
            break;
        }
        if is_unknown {
            read |= matches::looks_at(compiled, op);
        }
    }
    walk.stuck = *statement;
    let outcome = &mut walk.outcome;
    outcome.undecidable = why == DecideWhy::Beyond || read & walk.fields.beyond != 0;
    outcome.undecided = why == DecideWhy::Unknown || read & walk.fields.unknown != 0;
    target.verdict = RuleVerdict::Drop;
    why
}

/// Sets outcome.read_names to whether names are known and a rule's evaluated statements read them. A rule that begins
/// with a name counts even if its conditions are not met. Rules after a rule with an unknown result don't count,
/// because `ways` does not call this function.
/// - statement: index of the last evaluated statement.
#[cold]
#[inline(never)]
fn note_names<R>(walk: &mut Walk<R>, rule: &CompileRule, statement: u32) {
    walk.outcome.read_names = fields::has_names(&walk.fields) && statement >= rule.names_at;
}

/// Evaluates a rule. Returns its target: `Continue` if it does not hold or has no target; `Drop` if the result is
/// unknown, with outcome.undecidable or outcome.undecided set.
#[inline]
fn walk_rule<R: DecideRecorder>(walk: &mut Walk<R>, rule: u32) -> SetTarget {
    let compiled = walk.policy.compiled;
    let mut target = SetTarget {
        verdict: RuleVerdict::Continue,
        chain: 0,
    };
    let Some(walked) = compiled.rules.get(rule as usize) else {
        return target;
    };
    let ops = statement::ops(walk, walked);
    let mut why = match walked.needs {
        0 => DecideWhy::Held,
        needs => statement::meets(walk, needs),
    };
    let mut statement = 0;
    if why == DecideWhy::Held {
        for op in ops {
            why = statement::walk(walk, op, &mut target);
            if why != DecideWhy::Held {
                break;
            }
            statement += 1;
        }
    }
    if matches!(why, DecideWhy::Beyond | DecideWhy::Unknown) {
        why = look_on(walk, walked, &mut statement, why, &mut target);
    }
    if walked.needs & READS_NAMES != 0 && !walk.outcome.read_names {
        note_names(walk, walked, statement);
    }
    if R::LISTENS {
        let may = matches!(why, DecideWhy::Beyond | DecideWhy::Unknown);
        statement::record(walk, rule, statement, why, &target, may);
    }
    target
}

fn may_hold(why: DecideWhy) -> bool {
    matches!(why, DecideWhy::Held | DecideWhy::Beyond)
}

/// Returns true if neither a rule's conditions nor its matches before its first statement that reads a name fail.
#[cold]
#[inline(never)]
fn reaches_names<R>(walk: &mut Walk<R>, rule: &CompileRule) -> bool {
    let ops = statement::ops(walk, rule).iter();
    let mut before = ops.take(rule.names_at as usize);
    let mut target = NOWHERE;
    may_hold(statement::meets(walk, rule.needs))
        && before.all(|op| may_hold(statement::walk(walk, op, &mut target)))
}

/// Sets outcome.read_names if a rule that was skipped would have read the names.
/// - end: rule up to which the current chain was evaluated, or NO_RULE.
#[inline(never)]
fn note_readers<R>(walk: &mut Walk<R>, end: u32) {
    let compiled = walk.policy.compiled;
    let chain = compiled.chains.get(walk.frame.chain as usize);
    let Some(finder) = chain.and_then(|chain| chain.finders.get(walk.reach as usize)) else {
        return;
    };
    let first = finder.first_reader as usize;
    let readers = compiled
        .readers
        .get(first..first + finder.reader_count as usize);
    let passed = readers
        .unwrap_or_default()
        .iter()
        .take_while(|&&reader| reader < end);
    let mut rules = passed.filter_map(|&reader| compiled.rules.get(reader as usize));
    walk.outcome.read_names = rules.any(|rule| rule.names_at == 0 || reaches_names(walk, rule));
}

/// Evaluates a base chain with all chains that it leads to. Returns `Accept` or `Drop`.
#[inline]
fn walk_base<R: DecideRecorder>(walk: &mut Walk<R>, base: u32) -> RuleVerdict {
    walk.stack.clear();
    walk.way = 0;
    frame::enter_newly(walk, base);
    loop {
        let Some(rule) = frame::next_rule(&mut walk.frame) else {
            if fields::has_names(&walk.fields) && !walk.outcome.read_names {
                note_readers(walk, NO_RULE);
            }
            if frame::leave(walk) {
                continue;
            }
            return frame::end_by_policy(walk, base);
        };
        let target = walk_rule(walk, rule);
        // The most frequent case comes first: a comparison costs less than a jump table.
        if target.verdict == RuleVerdict::Continue {
            continue;
        }
        if fields::has_names(&walk.fields) && !walk.outcome.read_names {
            note_readers(walk, rule);
        }
        match target.verdict {
            RuleVerdict::Accept | RuleVerdict::Drop => {
                return frame::end_by_rule(walk, target.verdict, rule)
            }
            RuleVerdict::Continue => {}
            RuleVerdict::Return => {
                if !frame::leave(walk) {
                    return frame::end_by_policy(walk, base);
                }
            }
            RuleVerdict::Jump => {
                frame::remember(walk, rule, NO_FORK);
                walk.way += 1;
                frame::enter_newly(walk, target.chain);
            }
            RuleVerdict::Goto => {
                walk.way += 1;
                frame::enter_newly(walk, target.chain);
            }
        }
    }
}

/// Returns the set of fields by which rules can be found.
/// - beyond: bits of the fields beyond the captured bytes.
/// - unknown: bits of the unknown names.
fn reach_of(beyond: u64, unknown: u64) -> CompileReach {
    match (beyond, unknown) {
        (0, 0) => CompileReach::Whole,
        (0, _) => CompileReach::Unnamed,
        _ if beyond & !fields::BEHIND_IP == 0 => CompileReach::BeyondCopy,
        _ => CompileReach::None,
    }
}

/// Evaluates base chains in order, until one drops the packet. If it is unknown whether a rule holds, because it reads
/// a field beyond the captured bytes or an unknown name, `ways::go_on` continues, unless another match of the rule, or
/// the map of names that is its first effect, fails whatever the unknown value is.
/// - bases: numbers of chains.
/// - nfproto: fields::IPV4 or fields::IPV6.
/// - outcome: in/out: filled in; its previous verdict must not be reject.
pub fn policy<R: DecideRecorder>(
    settings: &DecideSettings,
    policy: &DecidePolicy,
    input: &DecideInput,
    bases: &[u32],
    nfproto: u8,
    recorder: &mut R,
    outcome: &mut DecideOutcome,
) {
    let mut walk = Walk {
        policy: *policy,
        input,
        recorder,
        outcome,
        fields: Fields::from(input),
        frame: Frame {
            chain: 0,
            lists: ArrayVec::new(),
        },
        reach: CompileReach::Whole,
        way: 0,
        stuck: 0,
        stack: ArrayVec::new(),
    };
    fields::read(
        &mut walk.fields,
        policy.compiled.wanted,
        nfproto,
        walk.input,
    );
    walk.reach = reach_of(walk.fields.beyond, walk.fields.unknown);
    let mut bases = bases;
    while let Some((&base, behind)) = bases.split_first() {
        if walk_base(&mut walk, base) == RuleVerdict::Drop {
            if walk.outcome.undecidable || walk.outcome.undecided {
                ways::go_on(&mut walk, settings, bases);
            } else if walk.outcome.verdict != Verdict::Reject {
                walk.outcome.verdict = Verdict::Drop;
            }
            return;
        }
        bases = behind;
    }
    walk.outcome.verdict = Verdict::Accept;
}
