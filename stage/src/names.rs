// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds what a policy asks of names: the matches of rules, and the sets of names.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::key::{self, Use};
use crate::lookup::{self, Lookup};
use crate::matches;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Set, Tree};
use crate::Refusal;

/// Protocols and their fields (rules/policy/GRAMMAR.md, Names).
const FIELDS: [(&str, &[&str]); 3] = [
    ("tls", &["sni", "alpn", "version", "ech"]),
    ("http", &["host", "method"]),
    ("dns", &["name", "type"]),
];

/// Fields that are the name of a host.
const HOSTS: [&str; 3] = ["tls sni", "http host", "dns name"];

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

impl Ask {
    /// It asks for a question of DNS.
    pub fn is_of_dns(&self) -> bool {
        self.field.starts_with("dns") && !self.is_of_no_dns()
    }

    /// It asks for the absence of a question.
    pub fn is_of_no_dns(&self) -> bool {
        self.field.starts_with("dns") && self.text.ends_with(" missing")
    }
}

/// A rule that asks for names.
#[derive(Clone, Debug)]
pub struct NameRule {
    /// Into `Tree::rules`.
    pub rule: usize,
    pub asks: Vec<Ask>,
    pub lookup: Option<Lookup>,
}

impl NameRule {
    /// All that it asks, with the elements of its lookup.
    pub fn all(&self) -> impl Iterator<Item = &Ask> {
        let elements = self.lookup.iter().flat_map(|lookup| &lookup.elements);
        self.asks
            .iter()
            .chain(elements.flat_map(|element| &element.asks))
    }

    /// Its test at a place holds for packets of DNS only.
    pub fn is_of_dns_at(&self, place: usize) -> bool {
        let lookup = self.lookup.iter().filter(|lookup| lookup.place == place);
        let elements = lookup.flat_map(|lookup| &lookup.elements);
        let asks = self.asks.iter().filter(|ask| ask.place == place);
        let mut all = asks.chain(elements.flat_map(|element| &element.asks));
        all.any(Ask::is_of_dns)
    }

    /// Only packets of DNS pass its first test.
    pub fn is_of_dns(&self) -> bool {
        self.is_of_dns_at(self.first_test())
    }

    /// It asks for the absence of a question only, which is certain for packets of other ports than 53.
    pub fn is_of_no_dns(&self) -> bool {
        self.lookup.is_none() && self.asks.iter().all(Ask::is_of_no_dns)
    }

    /// Position of its first test. Only the matches before it decide whether the test is evaluated.
    pub fn first_test(&self) -> usize {
        let tested = self
            .lookup
            .iter()
            .filter(|lookup| lookup.of != Use::NotMember);
        let places = self.asks.iter().map(|ask| ask.place);
        let all = places.chain(tested.map(|lookup| lookup.place));
        all.min().unwrap_or(0)
    }

    /// The first token that asks for a name.
    pub fn start(&self) -> usize {
        let lookup = self.lookup.iter().map(|lookup| lookup.tokens.start);
        let all = self.asks.iter().map(|ask| ask.tokens.start).chain(lookup);
        all.min().unwrap_or(0)
    }
}

/// A set of names that the splitter makes, of a lookup's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first of its elements.
    pub token: usize,
    pub field: String,
    pub name: String,
    pub values: Vec<String>,
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
    /// Into `Tree::sets`: maps from names, and sets of names with other fields. Lookups have their elements.
    pub keyed: Vec<usize>,
    /// Into `Tree::sets`: sets of addresses that learn from DNS.
    pub learns: Vec<usize>,
}

/// Whether two words are a field of names.
pub fn is_field(protocol: &str, field: &str) -> bool {
    let found = FIELDS.iter().find(|(known, _)| *known == protocol);
    found.is_some_and(|(_, fields)| fields.contains(&field))
}

fn is_asked(tokens: &Tokens, at: usize) -> bool {
    tokens.kind(at) == Kind::Word && is_field(tokens.get(at), tokens.get(at + 1))
}

/// Types that only names have.
const TYPES: [&str; 4] = ["hostname", "tls_version", "http_method", "dns_type"];

/// Element type of a set.
enum SetKind {
    Names,
    /// A map from names, or names with other fields.
    Keyed,
    Learns,
    Other,
}

fn set_kind(tokens: &Tokens, set: &Set) -> SetKind {
    let learns = |at: usize| tokens.get(at) == "learn" && tokens.get(at + 1) == "dns";
    if set.inner.clone().any(learns) {
        return SetKind::Learns;
    }
    let is_type = |at: &usize| ["type", "typeof"].contains(&tokens.get(*at));
    let Some(first) = set.inner.clone().find(is_type).map(|at| at + 1) else {
        return SetKind::Other;
    };
    let mut words = first..tokens.statement_end(first);
    let is_named = |at: usize| TYPES.contains(&tokens.get(at)) || is_asked(tokens, at);
    let count = words.len();
    match (words.any(is_named), is_asked(tokens, first), count) {
        (false, ..) => SetKind::Other,
        (true, true, 2) | (true, false, 1) => SetKind::Names,
        _ => SetKind::Keyed,
    }
}

/// Refuses a list of a set that has other elements than names.
fn refuse_file(tokens: &Tokens, set: &Set) -> Result<(), Refusal> {
    let is_file = |at: &usize| {
        let is_first = *at == set.inner.start || tokens.kind(at - 1) == Kind::End;
        is_first && tokens.get(*at) == "file" && tokens.kind(at + 1) == Kind::String
    };
    match set.inner.clone().find(is_file) {
        Some(at) => {
            let reason = "a file in a set of other elements than hostnames";
            let cure = "define the elements in a file of nft's language, and include it";
            Err(Refusal::at(tokens, at, reason, cure))
        }
        None => Ok(()),
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
        if names.keyed.iter().any(is_same) {
            names.keyed.push(number);
            continue;
        }
        let parts = vec![number];
        let kind = set_kind(tokens, set);
        if !matches!(kind, SetKind::Names) {
            refuse_file(tokens, set)?;
        }
        match kind {
            SetKind::Names => sets.push(NameSet { parts, name }),
            SetKind::Keyed => names.keyed.push(number),
            SetKind::Learns => names.learns.push(number),
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

/// Position of a class's test: after all other matches of the rule, so that what a rule may accept while a name is unknown is what
/// the others match.
/// - pure: matches of names
fn place(tokens: &Tokens, pure: &[Range<usize>], start: usize, end: usize) -> usize {
    let mut at = start;
    loop {
        let name = pure.iter().find(|range| range.start == at);
        match name
            .map(|range| range.end)
            .or_else(|| matches::behind(tokens, at, end))
        {
            Some(behind) => at = behind,
            None => return at,
        }
    }
}

/// Matches of whether there is a name, for a lookup that holds where no element does.
fn existence(lookup: &Lookup) -> Vec<Ask> {
    let asks = lookup.elements.iter().flat_map(|element| &element.asks);
    let hosts: BTreeSet<&str> = asks
        .filter(|ask| HOSTS.contains(&ask.field.as_str()))
        .map(|ask| ask.field.as_str())
        .collect();
    let ask = |field: &str| Ask {
        tokens: lookup.tokens.end..lookup.tokens.end,
        field: field.to_owned(),
        text: format!("{field} exists"),
        place: lookup.tokens.end,
    };
    hosts.into_iter().map(ask).collect()
}

/// Finds what a rule asks for.
fn read_rule(tokens: &Tokens, tree: &Tree, rule: usize) -> Result<Option<NameRule>, Refusal> {
    let range = tree.rules[rule].tokens.clone();
    let table = tree.chains[tree.rules[rule].chain].table;
    let (mut asks, mut at, mut found) = (Vec::new(), range.start, None);
    while at < range.end {
        if let Some(key) = key::read(tokens, &range, at) {
            let lookup = lookup::read(tokens, tree, table, &key)?;
            at = lookup.tokens.end;
            if found.replace(lookup).is_some() {
                let reason = "two lookups of names in one rule";
                let cure = "write a rule for each, of which the first leads to the second";
                return Err(Refusal::at(tokens, key.tokens.start, reason, cure));
            }
        } else if is_asked(tokens, at) {
            let ask = read_ask(tokens, tree, table, at, range.end)?;
            at = ask.tokens.end;
            asks.push(ask);
        } else {
            at += 1;
        }
    }
    let mut lookup: Option<Lookup> = found;
    let mut pure: Vec<Range<usize>> = asks.iter().map(|ask| ask.tokens.clone()).collect();
    if let Some(lookup) = lookup.as_mut().filter(|lookup| !lookup.of.is_map()) {
        pure.push(lookup.tokens.clone());
        match lookup.of {
            Use::NotMember => asks.extend(existence(lookup)),
            _ => lookup.place = place(tokens, &pure, lookup.tokens.end, range.end),
        }
    }
    for ask in &mut asks {
        ask.place = place(tokens, &pure, ask.tokens.end, range.end);
    }
    let rule = NameRule { rule, asks, lookup };
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
            "tls alpn vmap { \"h2\" : drop }",
            "tls alpn . tcp dport { \"h2\" . 443 } drop",
            "tls sni . http host { \"a.example\" . \"b.example\" } drop",
            "tls version . tcp dport != { 1.3 . 443 } drop",
            "tls sni . tcp dport { \"a.example\" . 70000 } drop",
            "tls sni . tcp dport { \"a.example\" } drop",
            "tls sni vmap { \"a.example\" }",
            "tls sni vmap { }",
            "tls sni vmap { \"a.example\" : drop } http host vmap { \"a.example\" : drop }",
            "queue to tls sni map { \"a.example\" : 1 }",
            "tls sni & 1 == 2 drop",
        ] {
            assert!(find_in(rule).is_err(), "{rule}");
        }
    }

    #[test]
    fn lookups() {
        let names =
            find_in("ct state new counter meta mark set tls sni map { \"a.example\" : 1 } accept")
                .unwrap();
        let lookup = names.rules[0].lookup.as_ref().unwrap();
        assert_eq!((lookup.of, lookup.elements.len()), (Use::Value, 1));
        assert_eq!(lookup.tokens.start - lookup.place, 3);
        // Names of one port are one set.
        let rule = "tcp dport . tls sni { 443 . \"a.example\", 443 . \"b.example\", 80 . \"c.example\" } ip ttl 3 drop";
        let names = find_in(rule).unwrap();
        let lookup = names.rules[0].lookup.as_ref().unwrap();
        assert_eq!(lookup.elements.len(), 2);
        assert_eq!(lookup.groups[0].values, ["\"a.example\"", "\"b.example\""]);
        // Its test comes behind all matches.
        assert_eq!(lookup.place - lookup.tokens.end, 3);
        let names = find_in("iifname . tls sni != { \"e\" . \"a.example\" } drop").unwrap();
        assert_eq!(names.rules[0].asks[0].text, "tls sni exists");
    }
}
