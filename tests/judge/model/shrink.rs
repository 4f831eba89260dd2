// SPDX-License-Identifier: GPL-2.0-or-later
//! Shrinks a failing input: removes parts while it still fails.

use super::tree::{Policy, Rule};

/// Returns a short part of a list that still fails, in order: removes halves first, then smaller pieces, down to single
/// items (ddmin, Zeller).
pub fn list<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 && !kept.is_empty() {
        let mut at = 0;
        while at < kept.len() {
            let mut without = kept.clone();
            without.drain(at..(at + piece).min(kept.len()));
            if fails(&without) {
                kept = without;
            } else {
                at += piece;
            }
        }
        if piece == 1 {
            break;
        }
        piece = piece.div_ceil(2);
    }
    kept
}

/// Returns a smaller policy that still fails: removes tables, chains, sets, rules and their parts one by one.
pub fn policy(policy: &Policy, mut fails: impl FnMut(&Policy) -> bool) -> Policy {
    let mut best = policy.clone();
    loop {
        let before = best.to_string().len();
        for cuts in [
            cut_tables,
            cut_chains,
            cut_sets,
            cut_rules,
            cut_statements,
            cut_elements,
            cut_words,
        ] {
            let mut at = 0;
            while let Some(smaller) = cuts(&best, at) {
                if smaller != best && fails(&smaller) {
                    best = smaller;
                } else {
                    at += 1;
                }
            }
        }
        if best.to_string().len() == before {
            return best;
        }
    }
}

fn cut_tables(policy: &Policy, at: usize) -> Option<Policy> {
    let mut smaller = policy.clone();
    (at < smaller.tables.len()).then(|| {
        smaller.tables.remove(at);
        smaller
    })
}

/// Removes the item with number `at`, counted over the lists `of` of all tables. Returns None if there are fewer items.
fn cut_nth<T>(
    policy: &Policy,
    at: usize,
    of: impl Fn(&mut super::tree::Table) -> &mut Vec<T>,
) -> Option<Policy> {
    let mut smaller = policy.clone();
    let mut left = at;
    for table in &mut smaller.tables {
        let items = of(table);
        if left < items.len() {
            items.remove(left);
            return Some(smaller);
        }
        left -= items.len();
    }
    None
}

fn cut_chains(policy: &Policy, at: usize) -> Option<Policy> {
    cut_nth(policy, at, |table| &mut table.chains)
}

fn cut_sets(policy: &Policy, at: usize) -> Option<Policy> {
    cut_nth(policy, at, |table| &mut table.sets)
}

/// Calls `change` with each rule (its chain's rules and its index) until it returns true. Returns the changed policy,
/// or None if `change` never returns true.
fn with_rules(
    policy: &Policy,
    mut change: impl FnMut(&mut Vec<Rule>, usize) -> bool,
) -> Option<Policy> {
    let mut smaller = policy.clone();
    for table in &mut smaller.tables {
        for chain in &mut table.chains {
            for rule in 0..chain.rules.len() {
                if change(&mut chain.rules, rule) {
                    return Some(smaller);
                }
            }
        }
    }
    None
}

fn cut_rules(policy: &Policy, at: usize) -> Option<Policy> {
    let mut left = at;
    with_rules(policy, |rules, rule| {
        if left == 0 {
            rules.remove(rule);
            return true;
        }
        left -= 1;
        false
    })
}

fn cut_statements(policy: &Policy, at: usize) -> Option<Policy> {
    let mut left = at;
    with_rules(policy, |rules, rule| {
        let statements = &mut rules[rule].statements;
        if left < statements.len() && statements.len() > 1 {
            statements.remove(left);
            return true;
        }
        left = left.saturating_sub(statements.len());
        false
    })
}

fn cut_elements(policy: &Policy, at: usize) -> Option<Policy> {
    let mut smaller = policy.clone();
    let mut left = at;
    for table in &mut smaller.tables {
        let anonymous = table.chains.iter_mut().flat_map(|chain| &mut chain.rules);
        let anonymous = anonymous
            .flat_map(|rule| &mut rule.statements)
            .map(|one| &mut one.elements);
        let named = table.sets.iter_mut().map(|set| &mut set.elements);
        for elements in anonymous.chain(named) {
            if left < elements.len() {
                if elements.len() > 1 {
                    elements.remove(left);
                }
                return Some(smaller);
            }
            left -= elements.len();
        }
    }
    None
}

/// Removes the item with number `at`: `flush ruleset`, the policy of a base chain (whose priority becomes 0), or a
/// rule's comment. Returns None if there are fewer items.
fn cut_words(policy: &Policy, at: usize) -> Option<Policy> {
    let mut smaller = policy.clone();
    if at == 0 {
        smaller.flush = false;
        return Some(smaller);
    }
    let mut left = at - 1;
    for table in &mut smaller.tables {
        for chain in &mut table.chains {
            if left == 0 {
                if let Some(base) = &mut chain.base {
                    base.policy = None;
                    base.priority = "0".to_string();
                }
                return Some(smaller);
            }
            left -= 1;
            for rule in &mut chain.rules {
                if left == 0 {
                    rule.comment = None;
                    return Some(smaller);
                }
                left -= 1;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::generate::{policy as generate, Profile};
    use super::super::random::Random;
    use super::*;

    #[test]
    fn a_list_shrinks_to_what_matters() {
        let items: Vec<u32> = (0..1000).collect();
        let fails = |items: &[u32]| items.contains(&17) && items.contains(&900);
        assert_eq!(list(&items, fails), [17, 900]);
        assert_eq!(list(&items, |items| !items.is_empty()).len(), 1);
    }

    #[test]
    fn a_policy_shrinks_to_what_matters() {
        let mut random = Random::new(3);
        let big = std::iter::repeat_with(|| generate(&mut random, &Profile::full()))
            .find(|policy| {
                policy.to_string().contains("counter") && policy.to_string().len() > 3000
            })
            .unwrap();
        let small = policy(&big, |policy| policy.to_string().contains("counter"));
        let text = small.to_string();
        assert!(text.contains("counter"));
        let rules: usize = small
            .tables
            .iter()
            .flat_map(|table| &table.chains)
            .map(|chain| chain.rules.len())
            .sum();
        assert_eq!((small.tables.len(), rules), (1, 1), "{text}");
        assert!(text.lines().count() <= 6, "{text}");
    }
}
