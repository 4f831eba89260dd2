// SPDX-License-Identifier: GPL-2.0-or-later
//! Indexes of a chain's rules by the values of fields, where an index saves evaluating many rules. The outcome stays
//! the same: a rule is skipped only if one of its matches, before its first effect, does not hold, whatever else the
//! rule reads. Of the skipped rules, those are listed that may read names, so that the outcome says whether names were
//! read (`CompileFinder::first_reader`). Only fields within the captured bytes are used.

use crate::engine::candidates::{self, Candidates};
use crate::engine::compiled::{
    CompileChain, CompileFinder, CompileIndex, CompileOp, Compiled, INDEXES_MAX, INDEX_GAIN_MIN,
    REACH_COUNT,
};
use crate::engine::dependency::NO_NAMES;
use crate::engine::fields;
use crate::engine::hostnames;
use crate::engine::lookup::{self, LookupRange};
use crate::policy::{
    self, Chain, Elements, Field, Match, Op, Range, Right, StatementKind, Table, Type,
    FIELDS_OF_NAMES,
};

/// Maximum number of rules with which `find_beginnings` compares a rule.
const BEGINNINGS_MAX: usize = 128;

/// Kind of the statements before a rule's first statement that reads a name. They decide whether the rule reads the
/// names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// The rule reads no names, or an earlier rule has the same matches before its first statement that reads a name.
    Known,
    /// None of the earlier rules with which `find_beginnings` compares the rule has the same matches before its first
    /// statement that reads a name.
    First,
    /// The statements before the first statement that reads a name contain a match of the mark, which rules may change,
    /// or a statement that is no match.
    Marked,
}

/// Chain whose indexes are being created. Its rules are numbered from 0.
struct Plan<'a> {
    compiled: &'a Compiled,
    table: &'a Table,
    source: &'a Chain,
    chain: &'a CompileChain,
    /// Bits of the fields by which rules may be found.
    fields: u64,
    /// Kind of each rule's beginning (`find_beginnings`).
    beginnings: &'a [Beginning],
    /// For each rule, true if it is in an index.
    taken: Vec<bool>,
    /// For each rule, true if it must be in the list of rules that may read names although they are skipped (readers).
    reads: Vec<bool>,
    /// For each rule, true if `ranges` has ranges of the rule.
    tested: Vec<bool>,
    /// For each rule in `ranges`, true if it must be in the list of readers (rules that may read names although they
    /// are skipped) once it is in an index by the current field. That is so if the kind of its beginning is
    /// `Beginning::First`, and its match in `ranges` is its first statement that reads a name or a later statement.
    late: Vec<bool>,
    /// For each rule, true if `candidates::make` left it out, because it has too many intervals.
    left_out: Vec<bool>,
    /// Ranges of the rules' matches of the current field (`collect`).
    ranges: Vec<LookupRange>,
}

/// Returns the elements of a match's set. Returns None for a match without a set, for a key with several fields, for
/// sets with names from files, and for sets with too many elements.
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

/// Returns true if an index can contain a match: it holds only in a few ranges of its field's values. Excluded are the
/// mark, because rules change it; indexes of interfaces, because their ranges are names at this point; and ALPN
/// protocols, because they are bits.
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

/// Returns the number of statements at the start of a rule that may be matches by which the rule can be found.
fn leading_count(plan: &Plan, rule: usize) -> u32 {
    let compiled = plan.compiled.rules[plan.chain.first_rule as usize + rule];
    match plan.beginnings[rule] {
        Beginning::Marked => compiled.names_at,
        _ => compiled.count,
    }
}

/// Returns the matches at the start of a rule, before its first statement that is no match. The rule can be found by
/// those that `is_indexable` allows.
fn leading<'a>(plan: &Plan<'a>, rule: usize) -> impl Iterator<Item = (&'a CompileOp, &'a Match)> {
    let compiled = plan.compiled.rules[plan.chain.first_rule as usize + rule];
    let first = compiled.first as usize;
    let ops = &plan.compiled.ops[first..first + leading_count(plan, rule) as usize];
    let statements = &plan.source.rules[rule].statements;
    ops.iter()
        .zip(statements)
        .map_while(|(op, statement)| match &statement.kind {
            StatementKind::Match(matched) => Some((op, &**matched)),
            _ => None,
        })
}

/// Returns the bits of all fields by which rules that are in no index could be found.
fn leading_fields(plan: &Plan) -> u64 {
    let rules = (0..plan.taken.len()).filter(|&rule| !plan.taken[rule]);
    rules
        .flat_map(|rule| leading(plan, rule))
        .filter(|(op, matched)| is_indexable(plan, op, matched))
        .fold(0, |bits, (_, matched)| {
            bits | fields::bit(matched.key.fields[0])
        })
}

/// Collects the ranges of all rules that test the field and are in no index. Returns the number of these rules.
fn collect(plan: &mut Plan, field: Field) -> i64 {
    let mut rules = 0;
    plan.ranges.clear();
    for rule in 0..plan.taken.len() {
        let first = leading(plan, rule)
            .zip(0..)
            .filter(|_| !plan.taken[rule])
            .find(|((op, matched), _)| {
                matched.key.fields[0] == field && is_indexable(plan, op, matched)
            });
        plan.tested[rule] = first.is_some();
        plan.late[rule] = false;
        plan.left_out[rule] = false;
        if let Some(((op, matched), statement)) = first {
            let names_at = plan.compiled.rules[plan.chain.first_rule as usize + rule].names_at;
            plan.late[rule] = plan.beginnings[rule] == Beginning::First && statement >= names_at;
            add_match(plan, op, matched, rule as u32);
            rules += 1;
        }
    }
    rules
}

/// Creates an index by a field. Returns the expected number of rules that need not be evaluated for a packet, and the
/// index; None if there are fewer than INDEX_GAIN_MIN such rules.
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
    let costs = plan.left_out.iter().zip(&plan.late);
    let evaluated = costs.filter(|(&left_out, &late)| left_out || late).count();
    let gain = rules - evaluated as i64 - i64::from(candidates::cost(&candidates));
    (gain >= INDEX_GAIN_MIN).then_some((gain, candidates))
}

/// Returns the index of a field, and marks the rules in it as taken.
/// - field: field of the last call of `try_field`.
/// - candidates: lookup from values of the field to rules, as `try_field` has made it.
fn take(plan: &mut Plan, field: Field, mut candidates: Candidates) -> CompileIndex {
    for id in &mut candidates.ids {
        *id += plan.chain.first_rule;
    }
    for rule in 0..plan.taken.len() {
        let takes = plan.tested[rule] && !plan.left_out[rule];
        plan.taken[rule] |= takes;
        plan.reads[rule] |= takes && plan.late[rule];
    }
    CompileIndex {
        field,
        slot: fields::wide_slot(field),
        candidates,
    }
}

/// Creates the index that saves the evaluation of the most rules; of equally good indexes, that of the first field.
/// Returns None if no index is useful.
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

/// Returns true if two rules have the same conditions, and the same matches before their first statement that reads a
/// name. Then both rules read a packet's names, or neither does. Returns false if a statement before that one is no
/// match or reads the mark, because rules between the two may change the mark.
/// - chain: number of the chain `source`.
fn begin_alike(compiled: &Compiled, source: &Chain, chain: usize, a: usize, b: usize) -> bool {
    let first_rule = compiled.chains[chain].first_rule as usize;
    let (left, right) = (
        &compiled.rules[first_rule + a],
        &compiled.rules[first_rule + b],
    );
    if (left.needs, left.names_at) != (right.needs, right.names_at) {
        return false;
    }
    let before = source.rules[a]
        .statements
        .iter()
        .take(left.names_at as usize);
    let mut pairs = before.zip(&source.rules[b].statements);
    pairs.all(|(a, b)| match (&a.kind, &b.kind) {
        (StatementKind::Match(a), StatementKind::Match(b)) => {
            !a.key.fields.contains(&Field::MetaMark)
                && policy::same_match(&compiled.hosts.hostnames, a, b)
        }
        _ => false,
    })
}

/// Returns the kind of beginning (statements before the first statement that reads a name) of each rule of a chain.
fn find_beginnings(compiled: &Compiled, source: &Chain, chain: usize) -> Vec<Beginning> {
    let first_rule = compiled.chains[chain].first_rule as usize;
    let mut known = Vec::new();
    let beginning = |rule: usize| {
        if compiled.rules[first_rule + rule].names_at == NO_NAMES {
            return Beginning::Known;
        }
        if !begin_alike(compiled, source, chain, rule, rule) {
            return Beginning::Marked;
        }
        let mut latest = known.iter().rev();
        if latest.any(|&other| begin_alike(compiled, source, chain, other, rule)) {
            return Beginning::Known;
        }
        if known.len() < BEGINNINGS_MAX {
            known.push(rule);
        }
        Beginning::First
    };
    (0..source.rules.len()).map(beginning).collect()
}

/// Creates the list of rules that may read names although they are skipped.
fn add_readers(compiled: &mut Compiled, number: usize, reads: &[bool], finder: &mut CompileFinder) {
    let first_rule = compiled.chains[number].first_rule;
    finder.first_reader = compiled.readers.len() as u32;
    let readers = (first_rule..).zip(reads).filter(|(_, &reads)| reads);
    compiled.readers.extend(readers.map(|(rule, _)| rule));
    finder.reader_count = compiled.readers.len() as u32 - finder.first_reader;
}

/// Creates the list of rules that are in no index.
/// - taken: empty = no rule is in an index.
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

/// Creates a finder (indexes, and a list of the rules that are in no index) whose indexes use only some fields.
/// - fields: bits of these fields.
/// - beginnings: result of `find_beginnings`.
fn make_finder(
    compiled: &mut Compiled,
    table: &Table,
    source: &Chain,
    number: usize,
    fields: u64,
    beginnings: &[Beginning],
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
        beginnings,
        taken: vec![false; source.rules.len()],
        reads: vec![false; source.rules.len()],
        tested: vec![false; source.rules.len()],
        late: vec![false; source.rules.len()],
        left_out: vec![false; source.rules.len()],
        ranges: Vec::new(),
    };
    while indexes.len() < INDEXES_MAX {
        match add_index(&mut plan) {
            Some(index) => indexes.push(index),
            None => break,
        }
    }
    let (taken, reads) = (plan.taken, plan.reads);
    finder.index_count = indexes.len() as u32;
    compiled.indexes.append(&mut indexes);
    add_always(compiled, number, &taken, &mut finder);
    add_readers(compiled, number, &reads, &mut finder);
    finder
}

/// Returns the bits of the fields that a finder's indexes use.
fn found_by(compiled: &Compiled, finder: &CompileFinder) -> u64 {
    let first = finder.first_index as usize;
    let indexes = &compiled.indexes[first..first + finder.index_count as usize];
    indexes
        .iter()
        .fold(0, |bits, index| bits | fields::bit(index.field))
}

/// Creates the finders of a chain: indexes, and lists of the rules that are in no index.
/// - table, chain: source of compiled.chains[number].
pub fn chain(compiled: &mut Compiled, table: &Table, chain: &Chain, number: usize) {
    let beginnings = find_beginnings(compiled, chain, number);
    let make = |compiled: &mut Compiled, fields| {
        make_finder(compiled, table, chain, number, fields, &beginnings)
    };
    let whole = make(compiled, u64::MAX);
    let unnamed = match found_by(compiled, &whole) & FIELDS_OF_NAMES {
        0 => whole,
        _ => make(compiled, !FIELDS_OF_NAMES),
    };
    let near = !(fields::BEHIND_IP | FIELDS_OF_NAMES);
    let cut = match found_by(compiled, &unnamed) & !near {
        0 => unnamed,
        _ => make(compiled, near),
    };
    let none = match cut.index_count {
        0 => cut,
        _ => make(compiled, 0),
    };
    compiled.chains[number].finders = [whole, unnamed, cut, none];
}

/// Creates finders without indexes, which list all rules.
pub fn none(compiled: &mut Compiled, number: usize) {
    let mut whole = CompileFinder::default();
    add_always(compiled, number, &[], &mut whole);
    compiled.chains[number].finders = [whole; REACH_COUNT];
}
