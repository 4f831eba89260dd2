// SPDX-License-Identifier: GPL-2.0-or-later
//! What a policy has counted and used up, carried over to the one that takes its place: for the rules
//! that stay. A rule stays if there is one with the same comment in the same chain of the same table,
//! provided that either chain has that comment once; or else if there is one with the same text there,
//! comments and the numbers that counters start with aside, the n-th of equals for the n-th.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

use crate::flow::{self, Flow, FlowCounter, FlowLimit, FlowWord};
use crate::load::{self, Loaded};
use crate::policy::{self, Chain, Counter, Rule, Statement, StatementKind, Table};
use crate::print;

/// What has state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryKind {
    Counters,
    Logs,
    Limits,
    Quotas,
}

pub const KIND_COUNT: usize = CarryKind::Quotas as usize + 1;

/// A rule as it is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarryRule {
    /// "inet filter input".
    pub chain: String,
    pub comment: Option<String>,
    /// Canonical, without comment, counters at 0.
    pub text: String,
    /// Of its statements, by kind: the number of the first, as compile numbers them.
    pub first: [u32; KIND_COUNT],
    /// How many there are.
    pub count: [u32; KIND_COUNT],
}

/// The rules of a policy, in its order, with the state of their limits and quotas.
#[derive(Debug, Default)]
pub struct CarrySide {
    pub rules: Vec<CarryRule>,
    pub limits: Vec<FlowLimit>,
    pub limit_words: Vec<Arc<FlowWord<AtomicI64>>>,
    pub quota_words: Vec<Arc<FlowWord<AtomicU64>>>,
}

/// What goes over from one policy to another.
#[derive(Debug)]
pub struct Carry {
    from: Vec<CarryRule>,
    to: Vec<CarryRule>,
    /// Of each rule of `to`: the rule of `from`, or none as it is new.
    pub origins: Vec<Option<usize>>,
    pub kept: u32,
    pub added: u32,
    pub removed: u32,
}

/// The rule's text without its comment, counters at 0.
fn text_of(table: &Table, rule: &Rule) -> String {
    let bare = |statement: &Statement| {
        let mut statement = statement.clone();
        if let StatementKind::Counter(counter) = &mut statement.kind {
            *counter = Counter {
                packets: 0,
                bytes: 0,
            };
        }
        statement
    };
    let bare = Rule {
        place: rule.place,
        comment: None,
        statements: rule.statements.iter().map(bare).collect(),
    };
    print::rule(table, &bare)
}

fn chain_of(table: &Table, chain: &Chain) -> String {
    format!(
        "{} {} {}",
        policy::family_name(table.family),
        table.name,
        chain.name
    )
}

/// Counts the statements with state. next: how many there are in the rules before; counted up.
fn count_statements(rule: &Rule, next: &mut [u32; KIND_COUNT]) -> [u32; KIND_COUNT] {
    let mut count = [0; KIND_COUNT];
    for statement in &rule.statements {
        match &statement.kind {
            StatementKind::Counter(_) => count[CarryKind::Counters as usize] += 1,
            StatementKind::Log(_) => count[CarryKind::Logs as usize] += 1,
            StatementKind::Limit(_) => count[CarryKind::Limits as usize] += 1,
            StatementKind::Quota(_) => count[CarryKind::Quotas as usize] += 1,
            _ => {}
        }
    }
    for (next, count) in next.iter_mut().zip(count) {
        *next += count;
    }
    count
}

/// Describes a policy.
pub fn side_make(loaded: &Loaded) -> CarrySide {
    let mut next = [0; KIND_COUNT];
    let mut rules = Vec::with_capacity(loaded.compiled.rules.len());
    for table in &loaded.policy.tables {
        for chain in &table.chains {
            for rule in &chain.rules {
                rules.push(CarryRule {
                    chain: chain_of(table, chain),
                    comment: rule.comment.clone(),
                    text: text_of(table, rule),
                    first: next,
                    count: count_statements(rule, &mut next),
                });
            }
        }
    }
    CarrySide {
        rules,
        limits: loaded.compiled.limits.clone(),
        limit_words: loaded.flow.limits.clone(),
        quota_words: loaded.flow.quotas.clone(),
    }
}

/// A rule by what it is looked for: the chain; its comment or its text; which it is.
type Name<'a> = (&'a str, &'a str, usize);

fn compare_words(a: &Name, b: &Name) -> Order {
    (a.0, a.1).cmp(&(b.0, b.1))
}

/// Names the rules that have no partner yet: by their comments, if they have one, or by their texts.
/// Sorted; equals in the order of the rules.
fn names_of<'a>(
    rules: &'a [CarryRule],
    partners: &[Option<usize>],
    by_comment: bool,
) -> Vec<Name<'a>> {
    let name = |(number, (rule, partner)): (usize, (&'a CarryRule, &Option<usize>))| {
        let word = match by_comment {
            true => rule.comment.as_deref(),
            false => Some(rule.text.as_str()),
        };
        let is_free = partner.is_none();
        word.filter(|_| is_free)
            .map(|word| (rule.chain.as_str(), word, number))
    };
    let mut names: Vec<_> = rules
        .iter()
        .zip(partners)
        .enumerate()
        .filter_map(name)
        .collect();
    names.sort_unstable();
    names
}

/// Splits off the names at the front that have the same words.
fn split_equals<'a, 'b>(names: &mut &'b [Name<'a>]) -> &'b [Name<'a>] {
    let Some(first) = names.first() else {
        return &[];
    };
    let differs = |name: &Name| compare_words(first, name) != Order::Equal;
    let end = names.iter().position(differs).unwrap_or(names.len());
    let (equals, rest) = names.split_at(end);
    *names = rest;
    equals
}

/// Rules with the same words, the n-th of the n-th. only_unique: of those only that no other rule of
/// the same side shares.
fn pairs(mut from: &[Name], mut to: &[Name], only_unique: bool) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    while let (Some(old), Some(new)) = (from.first(), to.first()) {
        match compare_words(old, new) {
            Order::Less => drop(split_equals(&mut from)),
            Order::Greater => drop(split_equals(&mut to)),
            Order::Equal => {
                let (olds, news) = (split_equals(&mut from), split_equals(&mut to));
                if !only_unique || (olds.len() == 1 && news.len() == 1) {
                    pairs.extend(olds.iter().zip(news).map(|(old, new)| (old.2, new.2)));
                }
            }
        }
    }
    pairs
}

/// The rules of `from` that those of `to` are.
fn origins_of(from: &[CarryRule], to: &[CarryRule]) -> Vec<Option<usize>> {
    let mut partners = vec![None; from.len()];
    let mut origins = vec![None; to.len()];
    for by_comment in [true, false] {
        let olds = names_of(from, &partners, by_comment);
        let news = names_of(to, &origins, by_comment);
        for (old, new) in pairs(&olds, &news, by_comment) {
            if let (Some(partner), Some(origin)) = (partners.get_mut(old), origins.get_mut(new)) {
                *partner = Some(new);
                *origin = Some(old);
            }
        }
    }
    origins
}

/// Every statement of a kind in rules that stay, by its numbers before and now: the n-th of the rule
/// for the n-th.
fn each(carry: &Carry, kind: CarryKind) -> impl Iterator<Item = (usize, usize)> + '_ {
    let kind = kind as usize;
    let both = carry.to.iter().zip(&carry.origins);
    let both = both.filter_map(|(to, origin)| Some((carry.from.get((*origin)?)?, to)));
    both.flat_map(move |(from, to)| {
        let numbers =
            |rule: &CarryRule| (rule.first[kind] as usize..).take(rule.count[kind] as usize);
        numbers(from).zip(numbers(to))
    })
}

fn limits_equal(a: &FlowLimit, b: &FlowLimit) -> bool {
    (a.nsecs, a.rate, a.size, a.of_bytes) == (b.nsecs, b.rate, b.size, b.of_bytes)
}

/// Gives a policy, which nobody uses yet, the limits and quotas of rules that stay.
fn give_words(carry: &Carry, from: &CarrySide, limits: &[FlowLimit], flow: &mut Flow, now_ns: u64) {
    for (old, new) in each(carry, CarryKind::Limits) {
        let (Some(word), Some(place)) = (from.limit_words.get(old), flow.limits.get_mut(new))
        else {
            continue; // can't be: there are as many words as statements
        };
        let (Some(of), Some(limit)) = (from.limits.get(old), limits.get(new)) else {
            continue;
        };
        if limits_equal(of, limit) {
            *place = Arc::clone(word);
        } else {
            let empty_ns = flow::limit_refill(word, of, limit, now_ns);
            place.0.store(empty_ns, Ordering::Relaxed);
        }
    }
    for (old, new) in each(carry, CarryKind::Quotas) {
        if let (Some(word), Some(place)) = (from.quota_words.get(old), flow.quotas.get_mut(new)) {
            *place = Arc::clone(word);
        }
    }
}

/// Finds the rules that stay and gives `to`, which nobody uses yet, their limits and quotas: the very
/// words, so that what others take meanwhile counts; a limit with other figures is as full as it was.
/// - now_ns: of the clock that limits go by.
pub fn begin(from: CarrySide, to: &mut Loaded, now_ns: u64) -> Carry {
    let to_rules = side_make(to).rules;
    let origins = origins_of(&from.rules, &to_rules);
    let kept = origins.iter().flatten().count();
    let carry = Carry {
        kept: kept as u32,
        added: (to_rules.len() - kept) as u32,
        removed: (from.rules.len() - kept) as u32,
        from: from.rules.clone(),
        to: to_rules,
        origins,
    };
    give_words(&carry, &from, &to.compiled.limits, &mut to.flow, now_ns);
    carry
}

/// Has the counters and logs of rules that stay begin at what they had counted in the end.
/// - counters, logged: of `from`.
pub fn end(carry: &Carry, counters: &[FlowCounter], logged: &[u64], to: &Loaded) {
    let mut began = load::began(to);
    for (old, new) in each(carry, CarryKind::Counters) {
        if let (Some(counted), Some(place)) = (counters.get(old), began.counters.get_mut(new)) {
            *place = *counted;
        }
    }
    for (old, new) in each(carry, CarryKind::Logs) {
        if let (Some(counted), Some(place)) = (logged.get(old), began.logged.get_mut(new)) {
            *place = *counted;
        }
    }
}
