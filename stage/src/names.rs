// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds what a policy asks of names: the matches of rules, and the sets of names.

use std::ops::Range;

use crate::matches;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Set, Tree};
use crate::verdicts::{self, Verdicts};
use crate::Refusal;

/// Protocols and their fields (rules/policy/GRAMMAR.md, Names).
const FIELDS: [(&str, &[&str]); 3] = [
    ("tls", &["sni", "alpn", "version", "ech"]),
    ("http", &["host", "method"]),
    ("dns", &["name", "type"]),
];

/// A match that asks for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub tokens: Range<usize>,
    /// `tls sni`
    pub field: String,
    /// As the firewalls' language has it, with its sets' names as `Names::sets` has them.
    pub text: String,
    /// Position of the class's test: after the following matches, before any statement with an effect.
    pub place: usize,
}

/// A rule that asks for names.
#[derive(Clone, Debug)]
pub struct NameRule {
    /// Into `Tree::rules`.
    pub rule: usize,
    pub asks: Vec<Ask>,
    /// The map by which it ends.
    pub verdicts: Option<Verdicts>,
}

impl NameRule {
    /// All that it asks, with the keys of its map.
    pub fn all(&self) -> impl Iterator<Item = &Ask> {
        let keys = self.verdicts.iter().flat_map(|map| &map.elements);
        self.asks.iter().chain(keys.map(|(ask, _)| ask))
    }

    /// The first token that asks for a name.
    pub fn start(&self) -> usize {
        let map = self.verdicts.iter().map(|map| map.tokens.start);
        let all = self.asks.iter().map(|ask| ask.tokens.start).chain(map);
        all.min().unwrap_or(0)
    }
}

/// A set of names, which the firewall has and the kernel doesn't.
#[derive(Clone, Debug)]
pub struct NameSet {
    /// Into `Tree::sets`: its declarations, and what is added to it.
    pub parts: Vec<usize>,
    /// Its name in the firewall's policy.
    pub name: String,
}

#[derive(Clone, Debug, Default)]
pub struct Names {
    pub rules: Vec<NameRule>,
    pub sets: Vec<NameSet>,
    /// Into `Tree::sets`: maps from names to verdicts.
    pub maps: Vec<usize>,
}

/// Whether two words are a field of names.
pub fn is_field(protocol: &str, field: &str) -> bool {
    let found = FIELDS.iter().find(|(known, _)| *known == protocol);
    found.is_some_and(|(_, fields)| fields.contains(&field))
}

fn is_asked(tokens: &Tokens, at: usize) -> bool {
    tokens.kind(at) == Kind::Word && is_field(tokens.get(at), tokens.get(at + 1))
}

/// Element type of a set.
enum SetKind {
    Names,
    Verdicts,
    NamesWithOthers,
    Learns,
    Other,
}

fn set_kind(tokens: &Tokens, set: &Set) -> SetKind {
    let inner = set.inner.clone();
    let is_of_names = |at: usize| tokens.get(at) == "hostname" || is_asked(tokens, at);
    if inner
        .clone()
        .any(|at| tokens.get(at) == "learn" && tokens.get(at + 1) == "dns")
    {
        return SetKind::Learns;
    }
    let Some(first) = inner.clone().find(|at| is_of_names(*at)) else {
        return SetKind::Other;
    };
    let last = first
        + if tokens.get(first) == "hostname" {
            1
        } else {
            2
        };
    let is_alone =
        ["type", "typeof"].contains(&tokens.get(first - 1)) && tokens.kind(last) == Kind::End;
    let leads = tokens.get(last) == ":" && tokens.get(last + 1) == "verdict";
    match (is_alone, leads) {
        (true, _) => SetKind::Names,
        (false, true) => SetKind::Verdicts,
        (false, false) => SetKind::NamesWithOthers,
    }
}

/// Finds the sets of names. Refuses those that have no form in the kernel yet.
fn find_sets(tokens: &Tokens, tree: &Tree, names: &mut Names) -> Result<(), Refusal> {
    let sets = &mut names.sets;
    for (number, set) in tree.sets.iter().enumerate() {
        let name = format!("t{}_{}", set.table, set.name);
        if let Some(known) = sets.iter_mut().find(|known| known.name == name) {
            known.parts.push(number);
            continue;
        }
        let is_same = |map: &usize| {
            let map = &tree.sets[*map];
            map.table == set.table && map.name == set.name
        };
        if names.maps.iter().any(is_same) {
            names.maps.push(number);
            continue;
        }
        let refuse = |reason, cure| Err(Refusal::at(tokens, set.tokens.start, reason, cure));
        let parts = vec![number];
        match set_kind(tokens, set) {
            SetKind::Names => sets.push(NameSet { parts, name }),
            SetKind::Verdicts => names.maps.push(number),
            SetKind::NamesWithOthers => {
                let cure = "write a rule for each, with the name as a match of its own";
                return refuse(
                    "a map of names to values, or a set of names with other fields",
                    cure,
                );
            }
            SetKind::Learns => {
                let cure = "let the firewall decide the whole policy (--policy)";
                return refuse(
                    "a set that learns from DNS can't be filled in the kernel yet",
                    cure,
                );
            }
            SetKind::Other => {}
        }
    }
    Ok(())
}

/// Whether a field is part of a concatenation.
fn is_joined(tokens: &Tokens, at: usize) -> bool {
    at > 0 && tokens.get(at - 1) == "." || tokens.get(at + 2) == "."
}

/// The match at a token, in the firewalls' language.
fn read_ask(
    tokens: &Tokens,
    tree: &Tree,
    table: usize,
    at: usize,
    end: usize,
) -> Result<Ask, Refusal> {
    let refuse = |reason, cure| Refusal::at(tokens, at, reason, cure);
    let start = at + 2;
    if is_joined(tokens, at) {
        let cure = "write a rule for each, with the name as a match of its own";
        return Err(refuse("a name in a concatenation", cure));
    }
    if ["map", "vmap"].contains(&tokens.get(start)) {
        return Err(refuse(
            "a name in a map",
            "write a rule for each verdict, with a set of its names",
        ));
    }
    let is_whether = ["exists", "missing"].contains(&tokens.get(start));
    let found = match is_whether {
        true => Some(start + 1),
        false => matches::right_end(tokens, start, end),
    };
    let Some(behind) = found else {
        return Err(refuse(
            "this match is not understood",
            "see the chapter on names of GRAMMAR.md",
        ));
    };
    let text = tree::expand(tokens, tree, &(at..behind));
    let words = text.split(' ').map(|word| match word.strip_prefix('@') {
        Some(set) => format!("@t{table}_{set}"),
        None => word.to_owned(),
    });
    Ok(Ask {
        tokens: at..behind,
        field: format!("{} {}", tokens.get(at), tokens.get(at + 1)),
        text: words.collect::<Vec<String>>().join(" "),
        place: behind,
    })
}

/// Inserts the tests of classes after all other matches of their rules, so that what a rule may accept while a name is unknown is
/// what the others match.
fn place_asks(tokens: &Tokens, asks: &mut [Ask], end: usize) {
    for number in 0..asks.len() {
        let mut at = asks[number].tokens.end;
        loop {
            if let Some(ask) = asks.iter().find(|ask| ask.tokens.start == at) {
                at = ask.tokens.end;
            } else if let Some(behind) = matches::behind(tokens, at, end) {
                at = behind;
            } else {
                break;
            }
        }
        asks[number].place = at;
    }
}

/// Finds what a rule asks for.
fn read_rule(tokens: &Tokens, tree: &Tree, rule: usize) -> Result<Option<NameRule>, Refusal> {
    let range = tree.rules[rule].tokens.clone();
    let table = tree.chains[tree.rules[rule].chain].table;
    let (mut asks, mut at, mut map) = (Vec::new(), range.start, None);
    while at < range.end {
        if is_asked(tokens, at) && tokens.get(at + 2) == "vmap" && !is_joined(tokens, at) {
            let read = verdicts::read(tokens, tree, table, at)?;
            at = read.tokens.end;
            map = Some(read);
            continue;
        }
        if is_asked(tokens, at) {
            let ask = read_ask(tokens, tree, table, at, range.end)?;
            at = ask.tokens.end;
            asks.push(ask);
            continue;
        }
        at += 1;
    }
    place_asks(tokens, &mut asks, range.end);
    let rule = NameRule {
        rule,
        asks,
        verdicts: map,
    };
    let is_named = rule.all().next().is_some();
    Ok(is_named.then_some(rule))
}

/// Finds all that a policy asks of names.
pub fn find(tokens: &Tokens, tree: &Tree) -> Result<Names, Refusal> {
    let mut names = Names::default();
    find_sets(tokens, tree, &mut names)?;
    for rule in 0..tree.rules.len() {
        names.rules.extend(read_rule(tokens, tree, rule)?);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    fn find_in(rule: &str) -> Result<Names, Refusal> {
        let text = format!(
            "define bad = {{ \"x.example\" }}\ntable inet f {{\n set b {{ type hostname; }}\n chain c {{\n {rule}\n }}\n}}\n"
        );
        let tokens = token::tokens(&text);
        find(&tokens, &tree::read(&tokens))
    }

    #[test]
    fn matches_of_names() {
        let names =
            find_in("tcp dport 443 tls sni @b tls alpn != \"h2\" ip saddr 10.0.0.1 counter drop")
                .unwrap();
        let asks = &names.rules[0].asks;
        assert_eq!(asks[0].text, "tls sni @t0_b");
        assert_eq!(asks[1].text, "tls alpn != \"h2\"");
        assert_eq!(asks[0].place, asks[1].place);
        let names = find_in("counter dns name $bad drop").unwrap();
        assert_eq!(names.rules[0].asks[0].text, "dns name { \"x.example\" }");
        assert_eq!(names.sets.len(), 1);
        assert!(find_in("tls sni missing drop").is_ok());
    }

    #[test]
    fn what_is_refused() {
        for rule in [
            "ip saddr . tls sni @b drop",
            "tls sni . ip saddr @b drop",
            "tls alpn vmap { \"h2\" : drop }",
            "meta mark set tls sni map { \"a.example\" : 1 }",
            "tls sni & 1 == 2 drop",
        ] {
            assert!(find_in(rule).is_err(), "{rule}");
        }
    }
}
