// SPDX-License-Identifier: GPL-2.0-or-later
//! Statements of a rule: whether they hold for a packet, and their effects.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{CompileAsk, CompileOp, CompileRule};
use crate::engine::dependency::{NEEDS_IPV4, NEEDS_IPV6, NEEDS_TCP};
use crate::engine::fields::{self, IPV4, IPV6};
use crate::engine::flow;
use crate::engine::frame::Walk;
use crate::engine::matches::{self, Match};
use crate::engine::set::SetTarget;
use crate::engine::types::{CompilePlace, DecideRecorder, DecideStep, DecideWhy};
use crate::packet::verdict::Verdict;
use crate::policy::{Field, Reject, Verdict as RuleVerdict, FIELDS_OF_NAMES, KEY_FIELDS_MAX};

fn set_mark<R>(walk: &mut Walk<R>, mark: u32) {
    fields::set(&mut walk.fields, Field::MetaMark, mark);
    walk.outcome.mark = mark;
    walk.outcome.mark_set = true;
}

fn mark_map<R>(walk: &mut Walk<R>, set: u32, ask: CompileAsk) -> Match {
    let found = matches::find(walk.policy.compiled, &walk.fields, set, ask);
    if let Match::Found(element) = found {
        let set = walk.policy.compiled.sets.get(set as usize);
        if let Some(&mark) = set.and_then(|set| set.marks.get(element as usize)) {
            set_mark(walk, mark);
        }
    }
    found
}

fn vmap<R>(walk: &Walk<R>, set: u32, ask: CompileAsk, target: &mut SetTarget) -> Match {
    let found = matches::find(walk.policy.compiled, &walk.fields, set, ask);
    if let Match::Found(element) = found {
        let set = walk.policy.compiled.sets.get(set as usize);
        if let Some(&leads) = set.and_then(|set| set.targets.get(element as usize)) {
            *target = leads;
        }
    }
    found
}

/// Counts a packet that a log statement has seen, and adds the statement to the outcome.
fn count_log<R>(walk: &mut Walk<R>, log: u32) {
    let outcome = &mut walk.outcome;
    flow::log(walk.policy.counters, log);
    if let Some(noted) = outcome.logs.get_mut(outcome.log_count as usize) {
        *noted = log;
    }
    outcome.log_count += 1;
}

/// Checks a rule's conditions on a packet (see `dependency`). Returns `Held` if the packet meets them, `NoAnswer` if it
/// does not, and `Beyond` if this is unknown.
pub fn meets<R>(walk: &Walk<R>, needs: u32) -> DecideWhy {
    let packet = walk.input.packet;
    let nfproto = fields::narrow(&walk.fields, Field::MetaNfproto);
    let is_tcp = i32::from(packet.transport_protocol) == libc::IPPROTO_TCP;
    if needs & NEEDS_IPV4 != 0 && nfproto != u32::from(IPV4)
        || needs & NEEDS_IPV6 != 0 && nfproto != u32::from(IPV6)
    {
        return DecideWhy::NoAnswer;
    }
    match (needs & NEEDS_TCP != 0, packet.has_transport) {
        (false, _) => DecideWhy::Held,
        (true, true) if is_tcp => DecideWhy::Held,
        (true, false) if packet.headers_beyond => DecideWhy::Beyond,
        (true, _) => DecideWhy::NoAnswer,
    }
}

fn reject<R>(walk: &mut Walk<R>, reject: Reject) {
    walk.outcome.verdict = Verdict::Reject;
    walk.outcome.reject = Some(reject);
}

/// Executes a statement.
/// - target: out: target of a verdict, reject or verdict map; unchanged by other statements.
/// - Returns `Held` if the statement holds, otherwise the reason.
/// - It is inlined, because a function call per statement would add a sixth to the instructions of a decision.
#[inline(always)]
pub fn walk<R>(walk: &mut Walk<R>, op: &CompileOp, target: &mut SetTarget) -> DecideWhy {
    let compiled = walk.policy.compiled;
    let found = match *op {
        CompileOp::Narrow {
            field,
            negated,
            mask,
            low,
            span,
        } => matches::narrow(&walk.fields, field, mask, low, span, negated),
        CompileOp::Wide { wide, negated } => matches::wide(compiled, &walk.fields, wide, negated),
        CompileOp::Set { set, ask, negated } => {
            matches::set(compiled, &walk.fields, set, ask, negated)
        }
        CompileOp::Learned {
            learning,
            ask,
            negated,
        } => {
            let (fields, now_ns) = (&walk.fields, walk.input.now_ns);
            matches::learned(compiled, fields, learning, ask, negated, now_ns)
        }
        CompileOp::Counter(counter) => {
            flow::count(walk.policy.counters, counter, walk.input.length);
            return DecideWhy::Held;
        }
        CompileOp::Limit(limit) => {
            let (flow, input) = (walk.policy.flow, walk.input);
            let holds = compiled.limits.get(limit as usize).is_some_and(|made| {
                flow::limit_holds(flow, limit, made, input.length, input.now_ns)
            });
            return if holds {
                DecideWhy::Held
            } else {
                DecideWhy::Limit
            };
        }
        CompileOp::Quota(quota) => {
            let (flow, input) = (walk.policy.flow, walk.input);
            let holds = compiled
                .quotas
                .get(quota as usize)
                .is_some_and(|made| flow::quota_holds(flow, quota, made, input.length));
            return if holds {
                DecideWhy::Held
            } else {
                DecideWhy::Quota
            };
        }
        CompileOp::Log(log) => {
            count_log(walk, log);
            return DecideWhy::Held;
        }
        CompileOp::Mark { keep, toggle } => {
            let mark = fields::narrow(&walk.fields, Field::MetaMark);
            set_mark(walk, (mark & keep) ^ toggle);
            return DecideWhy::Held;
        }
        CompileOp::MarkMap { set, ask } => mark_map(walk, set, ask),
        CompileOp::Verdict { verdict, chain } => {
            *target = SetTarget { verdict, chain };
            return DecideWhy::Held;
        }
        CompileOp::Reject(answer) => {
            reject(walk, answer);
            target.verdict = RuleVerdict::Drop;
            return DecideWhy::Held;
        }
        CompileOp::Vmap { set, ask } => vmap(walk, set, ask, target),
    };
    matches::why_not(found)
}

/// Searches a map statement's map for the packet's key, if the key contains a name. Does not execute the statement.
/// Returns `Held` if the map has the key, otherwise the reason for the missing key or the unknown result. Returns
/// `Held` for any other statement, without a search.
pub fn look_up<R>(walk: &Walk<R>, op: &CompileOp) -> DecideWhy {
    let compiled = walk.policy.compiled;
    match *op {
        CompileOp::MarkMap { set, ask } | CompileOp::Vmap { set, ask }
            if matches::looks_at(compiled, op) & FIELDS_OF_NAMES != 0 =>
        {
            matches::why_not(matches::find(compiled, &walk.fields, set, ask))
        }
        _ => DecideWhy::Held,
    }
}

/// Returns the statements of a rule. Matches are statements, too.
pub fn ops<'a, R>(walk: &Walk<'a, R>, rule: &CompileRule) -> &'a [CompileOp] {
    let first = rule.first as usize;
    let ops = walk
        .policy
        .compiled
        .ops
        .get(first..first + rule.count as usize);
    ops.unwrap_or_default()
}

/// Reports to the recorder a rule that was evaluated up to a statement.
/// - may: true if an unknown value decides whether the rule holds or is reached.
pub fn record<R: DecideRecorder>(
    walk: &mut Walk<R>,
    rule: u32,
    statement: u32,
    why: DecideWhy,
    target: &SetTarget,
    may: bool,
) {
    let compiled = walk.policy.compiled;
    let (Some(chain), Some(walked)) = (
        compiled.chains.get(walk.frame.chain as usize),
        compiled.rules.get(rule as usize),
    ) else {
        return;
    };
    let ended = why == DecideWhy::Held && target.verdict != RuleVerdict::Continue;
    let mut step = DecideStep {
        place: CompilePlace {
            rule: rule.wrapping_sub(chain.first_rule),
            statement,
            ..chain.place
        },
        depth: walk.way,
        why,
        may,
        // Field of the conditions that are checked before the first statement.
        missing: Some(Field::MetaL4proto),
        values_count: 0,
        values: [0; KEY_FIELDS_MAX],
        verdict: ended.then_some(target.verdict),
    };
    let op = compiled.ops.get(walked.first as usize + statement as usize);
    let noted = matches!(
        why,
        DecideWhy::Differs | DecideWhy::Missing | DecideWhy::Beyond | DecideWhy::Unknown
    );
    if let Some(op) = op.filter(|_| noted) {
        matches::note_values(compiled, &walk.fields, op, &mut step);
    }
    walk.recorder.rule(&step);
}
