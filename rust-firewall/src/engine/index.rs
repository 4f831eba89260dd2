// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the rules of a chain that may match a packet by the values of its fields, where that
//! spares walking over the others. Verdicts and effects stay the same: a rule is left out only if
//! one of its matches, before its first effect, does not hold, whatever else the rule reads. Rules
//! are found by fields that are not beyond the captured bytes.

use crate::engine::candidates::{self, Candidates};
use crate::engine::compiled::{
    CompileChain, CompileFinder, CompileIndex, CompileOp, Compiled, INDEXES_MAX, INDEX_GAIN_MIN,
    REACH_COUNT,
};
use crate::engine::fields;
use crate::engine::hostnames;
use crate::engine::lookup::{self, LookupRange};
use crate::policy::{
    self, Chain, Elements, Field, Match, Op, Range, Right, StatementKind, Table, Type,
    FIELDS_OF_NAMES,
};

/// A chain whose indexes are being made. Rules are numbered within it.
struct Plan<'a> {
    compiled: &'a Compiled,
    table: &'a Table,
    source: &'a Chain,
    chain: &'a CompileChain,
    /// That rules may be found by.
    fields: u64,
    /// Whether a rule is in an index.
    taken: Vec<bool>,
    /// Whether a rule tests the field at hand.
    tested: Vec<bool>,
    /// Whether candidates left a rule out.
    left_out: Vec<bool>,
    /// The ranges of the field at hand.
    ranges: Vec<LookupRange>,
}

/// The elements that a match looks in, if they are few and are compared with one field as it is.
fn few_elements<'a>(plan: &Plan<'a>, matched: &'a Match) -> Option<&'a Elements> {
    let elements = match &matched.right {
        Right::Range(_) => return None,
        Right::Named { set, .. } if !plan.table.sets[*set as usize].listed.ids.is_empty() => {
            return None;
        }
        Right::Named { set, .. } => &plan.table.sets[*set as usize].elements,
        Right::Literal(elements) => elements,
    };
    let few = elements.count() <= candidates::INTERVALS_MAX as usize;
    (few && matched.key.fields.len() == 1).then_some(elements)
}

/// Whether a match needs its field to have some of a few values. The mark is left out: rules change
/// it. So are interfaces: their ranges are names here; and protocols of ALPN, which are bits.
fn is_indexable(plan: &Plan, op: &CompileOp, matched: &Match) -> bool {
    let unfit = [
        Field::MetaMark,
        Field::MetaIif,
        Field::MetaOif,
        Field::TlsAlpn,
    ];
    let field = matched.key.fields[0];
    let may_find = plan.fields & fields::bit(field) != 0 && !unfit.contains(&field);
    if op.negated() || matched.mask.is_some() || !may_find {
        return false;
    }
    match op {
        CompileOp::Learned { .. } => false,
        CompileOp::Set { .. } => few_elements(plan, matched).is_some(),
        _ => matched.op != Op::BitsAny,
    }
}

/// Adds the ranges of a match, sorted and without overlaps.
fn add_match(plan: &mut Plan, op: &CompileOp, matched: &Match, rule: u32) {
    let range = |low, high| LookupRange {
        low,
        high,
        value: rule,
    };
    match *op {
        CompileOp::Narrow { low, span, .. } => {
            let low = u128::from(low);
            plan.ranges.push(range(low, low + u128::from(span)));
        }
        CompileOp::Wide { wide, .. } => {
            let wide = &plan.compiled.wides[wide as usize];
            plan.ranges.push(range(wide.low, wide.low + wide.span));
        }
        _ => {
            let elements = few_elements(plan, matched).map_or(&[][..], |few| &few.ranges);
            let is_host = policy::field_facts(matched.key.fields[0]).kind == Type::Hostname;
            let of = |each: &Range| match is_host {
                true => hostnames::interval(&plan.compiled.hosts, each.low as u32),
                false => *each,
            };
            let mut ranges = elements
                .iter()
                .map(of)
                .map(|each| range(each.low, each.high))
                .collect();
            lookup::part(&mut ranges);
            plan.ranges.extend(ranges);
        }
    }
}

/// The matches of a rule before its first effect.
fn leading<'a>(plan: &Plan<'a>, rule: usize) -> impl Iterator<Item = (&'a CompileOp, &'a Match)> {
    let compiled = plan.compiled.rules[plan.chain.first_rule as usize + rule];
    let first = compiled.first as usize;
    let ops = &plan.compiled.ops[first..first + compiled.count as usize];
    let statements = &plan.source.rules[rule].statements;
    ops.iter()
        .zip(statements)
        .map_while(|(op, statement)| match &statement.kind {
            StatementKind::Match(matched) => Some((op, &**matched)),
            _ => None,
        })
}

/// The bits of all fields that rules in no index could be found by.
fn leading_fields(plan: &Plan) -> u64 {
    let rules = (0..plan.taken.len()).filter(|&rule| !plan.taken[rule]);
    rules
        .flat_map(|rule| leading(plan, rule))
        .filter(|(op, matched)| is_indexable(plan, op, matched))
        .fold(0, |bits, (_, matched)| {
            bits | fields::bit(matched.key.fields[0])
        })
}

/// Collects the ranges of all rules in no index that test the field. Gives how many rules.
fn collect(plan: &mut Plan, field: Field) -> i64 {
    let mut rules = 0;
    plan.ranges.clear();
    for rule in 0..plan.taken.len() {
        let first = leading(plan, rule)
            .filter(|_| !plan.taken[rule])
            .find(|(op, matched)| {
                matched.key.fields[0] == field && is_indexable(plan, op, matched)
            });
        plan.tested[rule] = first.is_some();
        plan.left_out[rule] = false;
        if let Some((op, matched)) = first {
            add_match(plan, op, matched, rule as u32);
            rules += 1;
        }
    }
    rules
}

/// Makes an index by a field. Gives how many rules it spares a packet.
fn try_field(plan: &mut Plan, field: Field) -> Option<(i64, Candidates)> {
    let bits = if fields::wide_slot(field).is_some() {
        128
    } else {
        32
    };
    let rules = collect(plan, field);
    if rules < INDEX_GAIN_MIN {
        return None;
    }
    let candidates = candidates::make(bits, &plan.ranges, &mut plan.left_out);
    let left_out = plan.left_out.iter().filter(|&&left_out| left_out).count();
    let gain = rules - left_out as i64 - i64::from(candidates::cost(&candidates));
    (gain >= INDEX_GAIN_MIN).then_some((gain, candidates))
}

/// Builds an index from the rules of the field that was tried last.
fn take(plan: &mut Plan, field: Field, mut candidates: Candidates) -> CompileIndex {
    for id in &mut candidates.ids {
        *id += plan.chain.first_rule;
    }
    for rule in 0..plan.taken.len() {
        plan.taken[rule] |= plan.tested[rule] && !plan.left_out[rule];
    }
    CompileIndex {
        field,
        slot: fields::wide_slot(field),
        candidates,
    }
}

/// Makes the index that spares the most rules; of equal ones, that of the first field.
fn add_index(plan: &mut Plan) -> Option<CompileIndex> {
    let wanted = leading_fields(plan);
    let mut most = 0;
    let mut best = None;
    let mut last = None;
    let mut candidates = None;
    for field in policy::FIELDS.iter().map(|facts| facts.field) {
        if wanted & fields::bit(field) == 0 {
            continue;
        }
        let tried = try_field(plan, field);
        if let Some((gain, _)) = tried.as_ref().filter(|(gain, _)| *gain > most) {
            most = *gain;
            best = Some(field);
        }
        last = Some(field);
        candidates = tried;
    }
    let best = best?;
    if last != Some(best) {
        candidates = try_field(plan, best);
    }
    let (_, candidates) = candidates?;
    Some(take(plan, best, candidates))
}

/// Makes the list of rules that are in no index. taken: empty = none is.
fn add_always(compiled: &mut Compiled, number: usize, taken: &[bool], finder: &mut CompileFinder) {
    let chain = &compiled.chains[number];
    finder.first_always = compiled.always.len() as u32;
    for rule in 0..chain.rule_count {
        if taken.get(rule as usize) != Some(&true) {
            compiled.always.push(chain.first_rule + rule);
        }
    }
    finder.always_count = compiled.always.len() as u32 - finder.first_always;
}

/// Makes a finder by some fields.
fn make_finder(
    compiled: &mut Compiled,
    table: &Table,
    source: &Chain,
    number: usize,
    fields: u64,
) -> CompileFinder {
    let mut finder = CompileFinder {
        first_index: compiled.indexes.len() as u32,
        ..CompileFinder::default()
    };
    let mut indexes = Vec::new();
    let mut plan = Plan {
        compiled,
        table,
        source,
        chain: &compiled.chains[number],
        fields,
        taken: vec![false; source.rules.len()],
        tested: vec![false; source.rules.len()],
        left_out: vec![false; source.rules.len()],
        ranges: Vec::new(),
    };
    while indexes.len() < INDEXES_MAX {
        match add_index(&mut plan) {
            Some(index) => indexes.push(index),
            None => break,
        }
    }
    let taken = plan.taken;
    finder.index_count = indexes.len() as u32;
    compiled.indexes.append(&mut indexes);
    add_always(compiled, number, &taken, &mut finder);
    finder
}

/// The bits of the fields that a finder's indexes go by.
fn found_by(compiled: &Compiled, finder: &CompileFinder) -> u64 {
    let first = finder.first_index as usize;
    let indexes = &compiled.indexes[first..first + finder.index_count as usize];
    indexes
        .iter()
        .fold(0, |bits, index| bits | fields::bit(index.field))
}

/// Makes the finders of a chain: indexes, and lists of the rules that are in none.
/// - table, chain: what compiled.chains[number] was compiled from.
pub fn chain(compiled: &mut Compiled, table: &Table, chain: &Chain, number: usize) {
    let whole = make_finder(compiled, table, chain, number, u64::MAX);
    let unnamed = match found_by(compiled, &whole) & FIELDS_OF_NAMES {
        0 => whole,
        _ => make_finder(compiled, table, chain, number, !FIELDS_OF_NAMES),
    };
    let near = !(fields::BEHIND_IP | FIELDS_OF_NAMES);
    let cut = match found_by(compiled, &unnamed) & !near {
        0 => unnamed,
        _ => make_finder(compiled, table, chain, number, near),
    };
    let none = match cut.index_count {
        0 => cut,
        _ => make_finder(compiled, table, chain, number, 0),
    };
    compiled.chains[number].finders = [whole, unnamed, cut, none];
}

/// Makes finders of no index, which list all rules.
pub fn none(compiled: &mut Compiled, number: usize) {
    let mut whole = CompileFinder::default();
    add_always(compiled, number, &[], &mut whole);
    compiled.chains[number].finders = [whole; REACH_COUNT];
}
