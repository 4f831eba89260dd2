// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfer of counters (also those of log statements), limits and quotas from a policy to its successor, for rules
//! that both have. Two rules correspond if they have the same comment in the same chain of the same table, and this
//! comment occurs once in each of the two chains. The remaining rules correspond if they have the same text in the same
//! chain, apart from comments and the initial values of counters; of rules with equal texts, the n-th of one policy
//! corresponds to the n-th of the other policy.

use std::cmp::Ordering as Order;
use std::iter;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::engine::compiled::FlowLimit;
use crate::engine::flow::{self, FlowCounter};
use crate::policy::print;
use crate::policy::{self, Chain, Counter, Policy, Rule, Statement, StatementKind, Table};
use crate::ruleset::load::{self, Loaded};

/// Kinds of statements with state: counters, logs, limits and quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationKind {
    Counters,
    Logs,
    Limits,
    Quotas,
}

pub const KIND_COUNT: usize = MigrationKind::Quotas as usize + 1;

/// Properties of a rule, by which the corresponding rule of another policy is found. Texts have no NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationRule {
    /// Name of the chain: "inet filter input".
    pub chain: Vec<u8>,
    pub comment: Option<Vec<u8>>,
    /// Canonical text of the rule without its comment, with counters at 0.
    pub text: Vec<u8>,
    /// Number of the rule's statements of each kind. The statements of a kind are numbered from 0 through all rules of
    /// the policy, as by compile.
    pub count: [u8; KIND_COUNT],
}

/// Position of the next rule of a policy.
#[derive(Debug, Default)]
pub struct MigrationPlace {
    table: usize,
    chain: usize,
    rule: usize,
}

/// Rules of one of the two policies of a migration, in the policy's order.
#[derive(Debug, Default)]
pub struct MigrationSide {
    pub rules: Vec<MigrationRule>,
    /// Number of statements of each kind in all rules.
    pub totals: [u32; KIND_COUNT],
    /// Size of each limit's bucket in nanoseconds, as in FlowLimit.
    pub limit_sizes: Vec<i64>,
}

/// Correspondence of two policies' rules and statements.
#[derive(Debug, Default)]
pub struct Migration {
    /// Pairs of corresponding statements by MigrationKind: the numbers in the old and in the new policy.
    pairs: [Vec<(u32, u32)>; KIND_COUNT],
    pub kept: u32,
    pub added: u32,
    pub removed: u32,
}

/// State of limits and quotas of another process's policy, numbered in the order of its rules.
#[derive(Debug, Default)]
pub struct MigrationStates {
    /// Number of tokens (nanoseconds) in each limit's bucket, at most the bucket's size.
    pub tokens: Vec<i64>,
    /// Number of bytes that each quota has used.
    pub used: Vec<u64>,
}

/// Returns the rule's text without its comment, with counters at 0.
fn text_of(policy: &Policy, table: &Table, rule: &Rule) -> String {
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
    print::rule(policy, table, &bare)
}

fn chain_of(table: &Table, chain: &Chain) -> String {
    format!(
        "{} {} {}",
        policy::family_name(table.family),
        table.name,
        chain.name
    )
}

/// Counts a rule's statements with state. A u8 holds each count: a rule has at most parse::state::STATEMENTS_MAX
/// statements.
fn count_statements(rule: &Rule) -> [u8; KIND_COUNT] {
    let mut count = [0; KIND_COUNT];
    for statement in &rule.statements {
        match &statement.kind {
            StatementKind::Counter(_) => count[MigrationKind::Counters as usize] += 1,
            StatementKind::Log(_) => count[MigrationKind::Logs as usize] += 1,
            StatementKind::Limit(_) => count[MigrationKind::Limits as usize] += 1,
            StatementKind::Quota(_) => count[MigrationKind::Quotas as usize] += 1,
            _ => {}
        }
    }
    count
}

/// Describes a policy's rule at a position, so that it can be found in another policy. Advances the position to the
/// next rule. Returns None at the end.
pub fn next_rule(loaded: &Loaded, at: &mut MigrationPlace) -> Option<MigrationRule> {
    loop {
        let table = loaded.policy.tables.get(at.table)?;
        let Some(chain) = table.chains.get(at.chain) else {
            (at.table, at.chain) = (at.table + 1, 0);
            continue;
        };
        let Some(rule) = chain.rules.get(at.rule) else {
            (at.chain, at.rule) = (at.chain + 1, 0);
            continue;
        };
        at.rule += 1;
        return Some(MigrationRule {
            chain: chain_of(table, chain).into_bytes(),
            comment: rule.comment.clone().map(String::into_bytes),
            text: text_of(&loaded.policy, table, rule).into_bytes(),
            count: count_statements(rule),
        });
    }
}

/// Describes all rules of a policy.
pub fn rules(loaded: &Loaded) -> Vec<MigrationRule> {
    let mut at = MigrationPlace::default();
    iter::from_fn(|| next_rule(loaded, &mut at)).collect()
}

/// Search key of a rule: the chain; its comment or its text; the rule's index.
type Name<'a> = (&'a [u8], &'a [u8], usize);

fn compare_words(a: &Name, b: &Name) -> Order {
    (a.0, a.1).cmp(&(b.0, b.1))
}

/// Creates the sorted search keys of rules without a partner (a corresponding rule in the other policy): by their
/// comments (then rules without a comment have no key), or by their texts. Equal keys stay in the order of the rules.
fn make_names<'a>(
    rules: &'a [MigrationRule],
    partners: &[Option<usize>],
    by_comment: bool,
) -> Vec<Name<'a>> {
    let name = |(number, (rule, partner)): (usize, (&'a MigrationRule, &Option<usize>))| {
        let word = match by_comment {
            true => rule.comment.as_deref(),
            false => Some(rule.text.as_slice()),
        };
        let is_free = partner.is_none();
        word.filter(|_| is_free)
            .map(|word| (rule.chain.as_slice(), word, number))
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

/// Returns the length of the run of equal keys that begins at the index `at`. Keys are equal if they have the same
/// chain, and the same comment or text.
fn equals_at(names: &[Name], at: usize) -> usize {
    let is_equal = |name: &&Name| compare_words(&names[at], name) == Order::Equal;
    names[at..].iter().take_while(is_equal).count()
}

/// Pairs the rules of two policies that have the same words (chain, and comment or text). If several rules have them,
/// pairs the n-th rule with the n-th.
/// - only_unique: true to pair only rules whose words no other rule of the same policy has.
/// - from_partners, to_partners: in/out: partner of each rule of the two policies; new pairs are added.
fn join(
    from: &[Name],
    to: &[Name],
    only_unique: bool,
    from_partners: &mut [Option<usize>],
    to_partners: &mut [Option<usize>],
) {
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let order = compare_words(&from[i], &to[j]);
        let (olds, news) = (equals_at(from, i), equals_at(to, j));
        if order == Order::Equal && (!only_unique || (olds == 1 && news == 1)) {
            for (old, new) in from[i..i + olds].iter().zip(&to[j..j + news]) {
                from_partners[old.2] = Some(new.2);
                to_partners[new.2] = Some(old.2);
            }
        }
        i += if order.is_le() { olds } else { 0 };
        j += if order.is_ge() { news } else { 0 };
    }
}

/// Pairs rules by comments or by texts.
/// - by_comment: true = by comments that occur once in each of the two chains; false = by texts.
/// - partners, origins: in/out: partner of each rule of `from`, and of each rule of `to`; new pairs are added.
fn pair_by(
    from: &[MigrationRule],
    to: &[MigrationRule],
    by_comment: bool,
    partners: &mut [Option<usize>],
    origins: &mut [Option<usize>],
) {
    let olds = make_names(from, partners, by_comment);
    let news = make_names(to, origins, by_comment);
    join(&olds, &news, by_comment, partners, origins);
}

/// Returns, for each rule of `to`, the index of the corresponding rule of `from`; None = none.
fn make_origins(from: &[MigrationRule], to: &[MigrationRule]) -> Vec<Option<usize>> {
    let mut partners = vec![None; from.len()];
    let mut origins = vec![None; to.len()];
    pair_by(from, to, true, &mut partners, &mut origins);
    pair_by(from, to, false, &mut partners, &mut origins);
    origins
}

/// Returns, for each rule, the number of its first statement of each kind, counted from 0 through all rules of the
/// policy.
fn make_firsts(rules: &[MigrationRule]) -> Vec<[u32; KIND_COUNT]> {
    let mut next = [0; KIND_COUNT];
    let first = |rule: &MigrationRule| {
        let first = next;
        for (next, count) in next.iter_mut().zip(rule.count) {
            *next += u32::from(count);
        }
        first
    };
    rules.iter().map(first).collect()
}

/// Adds the pairs of statements of two corresponding rules to the migration.
/// - olds, news: number of the rule's first statement of each kind.
fn add_pairs(
    migration: &mut Migration,
    old: &MigrationRule,
    olds: &[u32; KIND_COUNT],
    new: &MigrationRule,
    news: &[u32; KIND_COUNT],
) {
    for (kind, pairs) in migration.pairs.iter_mut().enumerate() {
        let both = u32::from(old.count[kind].min(new.count[kind]));
        pairs.extend((0..both).map(|n| (olds[kind] + n, news[kind] + n)));
    }
}

/// Finds the corresponding rules, and pairs their statements of each kind: the n-th of the old rule with the n-th of
/// the new rule.
pub fn pair(from: &[MigrationRule], to: &[MigrationRule]) -> Migration {
    let mut migration = Migration::default();
    let (from_firsts, to_firsts) = (make_firsts(from), make_firsts(to));
    let origins = make_origins(from, to);
    for ((new, new_first), origin) in to.iter().zip(&to_firsts).zip(origins) {
        let origin = origin.and_then(|origin| from.get(origin).zip(from_firsts.get(origin)));
        let Some((old, old_first)) = origin else {
            continue;
        };
        migration.kept += 1;
        add_pairs(&mut migration, old, old_first, new, new_first);
    }
    migration.added = to.len() as u32 - migration.kept;
    migration.removed = from.len() as u32 - migration.kept;
    migration
}

/// Returns the old and new numbers of all paired statements of a kind.
fn each(migration: &Migration, kind: MigrationKind) -> impl Iterator<Item = (usize, usize)> + '_ {
    let pairs = migration.pairs[kind as usize].iter();
    pairs.map(|(old, new)| (*old as usize, *new as usize))
}

fn limits_equal(a: &FlowLimit, b: &FlowLimit) -> bool {
    (a.nsecs, a.rate, a.size, a.of_bytes) == (b.nsecs, b.rate, b.size, b.of_bytes)
}

/// Makes the limits and quotas of the rules with a partner (a corresponding rule in the old policy) share the memory of
/// the partner's limits and quotas. A limit with other parameters has its own memory, and is filled to the same
/// fraction as the old limit. `to` must not be in use yet.
fn share_words(migration: &Migration, from: &Loaded, to: &mut Loaded, now_ns: u64) {
    for (old, new) in each(migration, MigrationKind::Limits) {
        let (Some(word), Some(place)) = (from.flow.limits.get(old), to.flow.limits.get_mut(new))
        else {
            continue; // not reached: each statement has a word
        };
        let (Some(of), Some(limit)) = (from.compiled.limits.get(old), to.compiled.limits.get(new))
        else {
            continue;
        };
        if limits_equal(of, limit) {
            *place = Arc::clone(word);
        } else {
            let tokens = flow::limit_tokens(word, of, now_ns);
            flow::limit_fill(place, limit, tokens, of.size, now_ns);
        }
    }
    for (old, new) in each(migration, MigrationKind::Quotas) {
        if let (Some(word), Some(place)) = (from.flow.quotas.get(old), to.flow.quotas.get_mut(new))
        {
            *place = Arc::clone(word);
        }
    }
}

/// Finds the corresponding rules, and sets their limits and quotas in `to`, which must not be in use yet. Both policies
/// then share the memory of these limits and quotas, so that packets count in both until `to` replaces `from`. A limit
/// with other parameters has its own memory, filled to the same fraction as the old limit.
/// - now_ns: time by the clock of the limits.
pub fn begin(from: &Loaded, to: &mut Loaded, now_ns: u64) -> Migration {
    let migration = pair(&rules(from), &rules(to));
    share_words(&migration, from, to, now_ns);
    migration
}

/// Sets the limits and quotas of the rules with a partner (a corresponding rule in another process's policy) to their
/// state in that process. All limits must be full before.
/// - sizes: sizes of the limits' buckets in the other process.
pub fn refill(
    migration: &Migration,
    sizes: &[i64],
    states: &MigrationStates,
    to: &Loaded,
    now_ns: u64,
) {
    for (old, new) in each(migration, MigrationKind::Limits) {
        let (Some(tokens), Some(size)) = (states.tokens.get(old), sizes.get(old)) else {
            continue; // not reached: each statement has a state
        };
        // A full limit needs no change.
        if let (true, Some(word), Some(limit)) = (
            tokens < size,
            to.flow.limits.get(new),
            to.compiled.limits.get(new),
        ) {
            flow::limit_fill(word, limit, *tokens, *size, now_ns);
        }
    }
    for (old, new) in each(migration, MigrationKind::Quotas) {
        if let (Some(used), Some(word)) = (states.used.get(old), to.flow.quotas.get(new)) {
            word.0.store(*used, Ordering::Relaxed);
        }
    }
}

/// Sets the initial values of the counters and logs of rules with a partner (a corresponding rule in the previous
/// policy) to the final values in that policy.
/// - counters, logged: values of the previous policy.
pub fn end(migration: &Migration, counters: &[FlowCounter], logged: &[u64], to: &Loaded) {
    let mut began = load::began(to);
    for (old, new) in each(migration, MigrationKind::Counters) {
        if let (Some(counted), Some(place)) = (counters.get(old), began.counters.get_mut(new)) {
            *place = *counted;
        }
    }
    for (old, new) in each(migration, MigrationKind::Logs) {
        if let (Some(counted), Some(place)) = (logged.get(old), began.logged.get_mut(new)) {
            *place = *counted;
        }
    }
}
