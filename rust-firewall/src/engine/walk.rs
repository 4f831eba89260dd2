// SPDX-License-Identifier: GPL-2.0-or-later
//! The way of a packet through the rules of a compiled policy.
#![deny(clippy::indexing_slicing)]

use arrayvec::ArrayVec;

use crate::engine::candidates;
use crate::engine::compiled::{
    CompileAsk, CompileIndex, CompileOp, CompileReach, CompileRule, INDEXES_MAX,
};
use crate::engine::dependency::{NEEDS_IPV4, NEEDS_IPV6, NEEDS_TCP, READS_NAMES};
use crate::engine::fields::{self, Fields, IPV4, IPV6};
use crate::engine::flow;
use crate::engine::flow::DecidePolicy;
use crate::engine::lookup;
use crate::engine::matches::{self, Match};
use crate::engine::set::SetTarget;
use crate::engine::types::{
    CompilePlace, DecideBy, DecideInput, DecideOutcome, DecideRecorder, DecideStep, DecideWhy,
};
use crate::packet::verdict::Verdict;
use crate::policy::{Field, Reject, Verdict as Leads, FIELDS_OF_NAMES, KEY_FIELDS_MAX, WAY_MAX};

/// Lists of rules to be walked in one chain.
const LISTS_MAX: usize = INDEXES_MAX + 1;

/// A chain that is being walked: its next rule is the lowest of all lists' next.
struct Frame<'a> {
    chain: u32,
    lists: ArrayVec<&'a [u32], LISTS_MAX>,
}

/// Where a walk goes on after a return.
struct Waiting {
    chain: u32,
    /// That jumped.
    rule: u32,
    way: u32,
}

/// A packet on its way through the policy.
struct Walk<'a, R> {
    policy: DecidePolicy<'a>,
    input: &'a DecideInput<'a>,
    recorder: &'a mut R,
    outcome: &'a mut DecideOutcome,
    fields: Fields,
    /// The chain at hand.
    frame: Frame<'a>,
    reach: CompileReach,
    /// Jumps and gotos taken on the way there.
    way: u32,
    /// Jumps to return from.
    stack: ArrayVec<Waiting, WAY_MAX>,
}

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

/// Counts a log statement that was passed, and notes it.
fn take_log<R>(walk: &mut Walk<R>, log: u32) {
    let outcome = &mut walk.outcome;
    flow::log(walk.policy.counters, log);
    if let Some(noted) = outcome.logs.get_mut(outcome.log_count as usize) {
        *noted = log;
    }
    outcome.log_count += 1;
}

/// Whether the packet is what a rule asks for before its first statement: `Held`, `NoAnswer`, or
/// `Beyond` if that is not known.
fn meets<R>(walk: &Walk<R>, needs: u32) -> DecideWhy {
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

/// Does what a statement says.
/// - target: where it leads, if it is a verdict; else untouched.
/// - Gives `Held` if the rule goes on after it.
/// - A call of a function for every statement would cost a decision a sixth more instructions.
#[inline(always)]
fn walk_statement<R>(walk: &mut Walk<R>, op: &CompileOp, target: &mut SetTarget) -> DecideWhy {
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
            take_log(walk, log);
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
            target.verdict = Leads::Drop;
            return DecideWhy::Held;
        }
        CompileOp::Vmap { set, ask } => vmap(walk, set, ask, target),
    };
    matches::why_not(found)
}

/// Reports a rule that was walked as far as statement.
fn record<R: DecideRecorder>(
    walk: &mut Walk<R>,
    rule: u32,
    statement: u32,
    why: DecideWhy,
    target: &SetTarget,
) {
    let compiled = walk.policy.compiled;
    let (Some(chain), Some(walked)) = (
        compiled.chains.get(walk.frame.chain as usize),
        compiled.rules.get(rule as usize),
    ) else {
        return;
    };
    let ended = why == DecideWhy::Held && target.verdict != Leads::Continue;
    let mut step = DecideStep {
        place: CompilePlace {
            rule: rule.wrapping_sub(chain.first_rule),
            statement,
            ..chain.place
        },
        depth: walk.way,
        why,
        // Which is asked for before the first statement.
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

/// Looks on in a rule that reads a field beyond the captured bytes or a name that is not known, for a
/// match that does not hold whatever that field is, as long as nothing has an effect.
/// - statement: that reads it; becomes the one that does not hold.
/// - why: `Beyond` or `Unknown`.
/// - target: becomes `Drop` if all that can be told holds.
/// - Gives why that one does not hold; or `why`, and says in outcome what the rule reads.
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
    let first = rule.first as usize;
    let ops = compiled.ops.get(first..first + rule.count as usize);
    let mut behind = ops
        .unwrap_or_default()
        .iter()
        .zip(0..)
        .skip(*statement as usize)
        .peekable();
    let first = behind.peek();
    let mut read = first.map_or(0, |(op, _)| matches::looks_at(compiled, op));
    for (op, number) in behind.take_while(|(op, _)| op.is_match()) {
        match walk_statement(walk, op, target) {
            DecideWhy::Held => {}
            DecideWhy::Beyond | DecideWhy::Unknown => read |= matches::looks_at(compiled, op),
            other => {
                *statement = number;
                return other;
            }
        }
    }
    let outcome = &mut walk.outcome;
    outcome.undecidable = why == DecideWhy::Beyond || read & walk.fields.beyond != 0;
    outcome.undecided = why == DecideWhy::Unknown || read & walk.fields.unknown != 0;
    target.verdict = Leads::Drop;
    why
}

/// Notes whether a rule came to a statement that looks at names, as none has before.
/// - statement: the last that was looked at.
#[cold]
#[inline(never)]
fn note_names<R>(walk: &mut Walk<R>, rule: &CompileRule, statement: u32) {
    let compiled = walk.policy.compiled;
    let first = rule.first as usize;
    let ops = compiled.ops.get(first..first + rule.count as usize);
    let mut walked = ops.unwrap_or_default().iter().take(statement as usize + 1);
    let is_known = walk.fields.present & FIELDS_OF_NAMES != 0;
    walk.outcome.read_names =
        is_known && walked.any(|op| matches::looks_at(compiled, op) & FIELDS_OF_NAMES != 0);
}

/// Walks a rule. Gives where it leads: `Continue` if nowhere, `Drop` if it can't be decided, as
/// outcome.undecidable or outcome.undecided say then.
#[inline]
fn walk_rule<R: DecideRecorder>(walk: &mut Walk<R>, rule: u32) -> SetTarget {
    let compiled = walk.policy.compiled;
    let mut target = SetTarget {
        verdict: Leads::Continue,
        chain: 0,
    };
    let Some(walked) = compiled.rules.get(rule as usize) else {
        return target;
    };
    let first = walked.first as usize;
    let ops = compiled.ops.get(first..first + walked.count as usize);
    let mut why = match walked.needs {
        0 => DecideWhy::Held,
        needs => meets(walk, needs),
    };
    let mut statement = 0;
    if why == DecideWhy::Held {
        for op in ops.unwrap_or_default() {
            why = walk_statement(walk, op, &mut target);
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
        record(walk, rule, statement, why, &target);
    }
    target
}

fn add_list<'a>(frame: &mut Frame<'a>, list: &'a [u32]) {
    if !list.is_empty() {
        // There is room for all lists that a chain has.
        let _ = frame.lists.try_push(list);
    }
}

/// Adds the rules that an index has for the packet.
fn add_candidates<'a, R>(walk: &mut Walk<'a, R>, index: &'a CompileIndex) {
    let lookup = &index.candidates.lookup;
    if !fields::is_present(&walk.fields, index.field) {
        return;
    }
    if fields::is_name(index.field) {
        walk.outcome.read_names = true;
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

/// Enters a chain from another one, or as the first.
fn enter_newly<R: DecideRecorder>(walk: &mut Walk<R>, chain: u32) {
    enter(walk, chain);
    if R::LISTENS {
        if let Some(chain) = walk.policy.compiled.chains.get(chain as usize) {
            walk.recorder.chain(chain.place, walk.way);
        }
    }
}

/// Skips the rules of a list before this one.
fn skip(list: &mut &[u32], rule: u32) {
    let passed = list.partition_point(|&other| other <= rule);
    *list = list.get(passed..).unwrap_or_default();
}

/// The next rule of the chain at hand.
#[inline]
fn next_rule(frame: &mut Frame) -> Option<u32> {
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

/// Goes on after the rule that jumped here. Returns false if there is none.
fn leave<R>(walk: &mut Walk<R>) -> bool {
    let Some(waiting) = walk.stack.pop() else {
        return false;
    };
    walk.way = waiting.way;
    enter(walk, waiting.chain);
    for list in &mut walk.frame.lists {
        skip(list, waiting.rule);
    }
    true
}

/// Notes where to go on after a return. There is room: `parse` refuses ways of more than WAY_MAX
/// chains.
fn remember<R>(walk: &mut Walk<R>, rule: u32) {
    let _ = walk.stack.try_push(Waiting {
        chain: walk.frame.chain,
        rule,
        way: walk.way,
    });
}

fn end_by_rule<R>(walk: &mut Walk<R>, verdict: Leads, rule: u32) -> Leads {
    walk.outcome.by = DecideBy::Rule;
    walk.outcome.rule = rule;
    walk.outcome.chain = walk.frame.chain;
    verdict
}

fn end_by_policy<R>(walk: &mut Walk<R>, base: u32) -> Leads {
    walk.outcome.by = DecideBy::Policy;
    walk.outcome.chain = base;
    let chain = walk.policy.compiled.chains.get(base as usize);
    chain.map_or(Leads::Drop, |chain| chain.policy)
}

/// Walks a base chain and all that it leads to. Gives `Accept` or `Drop`.
#[inline]
fn walk_base<R: DecideRecorder>(walk: &mut Walk<R>, base: u32) -> Leads {
    walk.stack.clear();
    walk.way = 0;
    enter_newly(walk, base);
    loop {
        let Some(rule) = next_rule(&mut walk.frame) else {
            if leave(walk) {
                continue;
            }
            return end_by_policy(walk, base);
        };
        let target = walk_rule(walk, rule);
        // As after most rules: a comparison costs less than a jump by a table.
        if target.verdict == Leads::Continue {
            continue;
        }
        match target.verdict {
            Leads::Accept | Leads::Drop => return end_by_rule(walk, target.verdict, rule),
            Leads::Continue => {}
            Leads::Return => {
                if !leave(walk) {
                    return end_by_policy(walk, base);
                }
            }
            Leads::Jump => {
                remember(walk, rule);
                walk.way += 1;
                enter_newly(walk, target.chain);
            }
            Leads::Goto => {
                walk.way += 1;
                enter_newly(walk, target.chain);
            }
        }
    }
}

/// By which fields rules are found where some are beyond the captured bytes, or names are not known.
fn reach_of(beyond: u64, unknown: u64) -> CompileReach {
    match (beyond, unknown) {
        (0, 0) => CompileReach::Whole,
        (0, _) => CompileReach::Unnamed,
        _ if beyond & !fields::BEHIND_IP == 0 => CompileReach::BeyondCopy,
        _ => CompileReach::None,
    }
}

/// Walks base chains in order, until one drops the packet, or a rule reads a field that is beyond the
/// captured bytes or a name that is not known. A rule that doesn't match whatever that field is, by what else it tests before it
/// has an effect, is passed over.
/// - bases: numbers of chains; nfproto: fields::IPV4 or fields::IPV6.
/// - Fills in outcome's verdict (which must not be reject before), by, rule, chain, mark, mark_set,
///   read_names and reject; sets undecidable and undecided, and then no verdict.
pub fn policy<R: DecideRecorder>(
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
        stack: ArrayVec::new(),
    };
    fields::read(
        &mut walk.fields,
        policy.compiled.wanted,
        nfproto,
        walk.input,
    );
    walk.reach = reach_of(walk.fields.beyond, walk.fields.unknown);
    for &base in bases {
        if walk_base(&mut walk, base) == Leads::Drop {
            let open = walk.outcome.undecidable || walk.outcome.undecided;
            if walk.outcome.verdict != Verdict::Reject && !open {
                walk.outcome.verdict = Verdict::Drop;
            }
            return;
        }
    }
    walk.outcome.verdict = Verdict::Accept;
}
