// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the matches of names in a policy's rules, and its sets of names.

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

/// Fields whose values are host names.
const HOSTS: [&str; 3] = ["tls sni", "http host", "dns name"];

/// Match of a name, in a rule or in an element of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub tokens: Range<usize>,
    /// Field, e.g. `tls sni`.
    pub field: String,
    /// Text of the match in the firewalls' language. Sets have the names of `Names::sets`.
    pub text: String,
    /// Token index at which the kernel's test of the class is written: after the matches that follow this match, before
    /// any statement with an effect.
    pub place: usize,
}

impl Ask {
    /// Returns true if the match requires a DNS query.
    pub fn is_of_dns(&self) -> bool {
        self.field.starts_with("dns") && !self.is_of_no_dns()
    }

    /// Returns true if the match requires that there is no DNS query.
    pub fn is_of_no_dns(&self) -> bool {
        self.field.starts_with("dns") && self.text.ends_with(" missing")
    }
}

/// Rule that matches names.
#[derive(Clone, Debug)]
pub struct NameRule {
    /// Index of this rule in `Tree::rules`.
    pub rule: usize,
    pub asks: Vec<Ask>,
    pub lookup: Option<Lookup>,
}

impl NameRule {
    /// Returns all matches of names, including those of the lookup's elements.
    pub fn all(&self) -> impl Iterator<Item = &Ask> {
        let elements = self.lookup.iter().flat_map(|lookup| &lookup.elements);
        self.asks
            .iter()
            .chain(elements.flat_map(|element| &element.asks))
    }

    /// Returns true if the test of the class (the kernel's form of the rule's matches of names) at a place holds for
    /// DNS packets only.
    /// - place: token index of the test.
    pub fn is_of_dns_at(&self, place: usize) -> bool {
        let lookup = self.lookup.iter().filter(|lookup| lookup.place == place);
        let elements = lookup.flat_map(|lookup| &lookup.elements);
        let asks = self.asks.iter().filter(|ask| ask.place == place);
        let mut all = asks.chain(elements.flat_map(|element| &element.asks));
        all.any(Ask::is_of_dns)
    }

    /// Returns true if the rule's first test of the class holds for DNS packets only.
    pub fn is_of_dns(&self) -> bool {
        self.is_of_dns_at(self.first_test())
    }

    /// Returns true if the rule's only condition on names is that there is no DNS query. Packets from and to ports
    /// other than 53 always meet this condition.
    pub fn is_of_no_dns(&self) -> bool {
        self.lookup.is_none() && self.asks.iter().all(Ask::is_of_no_dns)
    }

    /// Returns the index of the policy's token before which the splitter writes the rule's first test of the class (the
    /// kernel's form of matches of names). Only the matches before this token decide whether the kernel evaluates the
    /// test.
    pub fn first_test(&self) -> usize {
        let tested = self
            .lookup
            .iter()
            .filter(|lookup| lookup.of != Use::NotMember);
        let places = self.asks.iter().map(|ask| ask.place);
        let all = places.chain(tested.map(|lookup| lookup.place));
        all.min().unwrap_or(0)
    }

    /// Returns the first token of the rule's matches and lookups of names.
    pub fn start(&self) -> usize {
        let lookup = self.lookup.iter().map(|lookup| lookup.tokens.start);
        let all = self.asks.iter().map(|ask| ask.tokens.start).chain(lookup);
        all.min().unwrap_or(0)
    }
}

/// Set of names that the splitter makes from a lookup's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Token of the first element.
    pub token: usize,
    pub field: String,
    pub name: String,
    pub values: Vec<String>,
}

/// Set of names. Only the firewall has such a set; the kernel doesn't.
#[derive(Clone, Debug)]
pub struct NameSet {
    /// Indexes in `Tree::sets`: declarations of the set, and `add element` commands for it.
    pub parts: Vec<usize>,
    /// Name of the set in the firewall's policy.
    pub name: String,
}

#[derive(Clone, Debug, Default)]
pub struct Names {
    pub rules: Vec<NameRule>,
    pub sets: Vec<NameSet>,
    /// Indexes in `Tree::sets` of maps from names, and of sets of names with other fields. The kernel's text has no
    /// such set: each `Lookup` holds a copy of its elements.
    pub keyed: Vec<usize>,
    /// Indexes in `Tree::sets` of the sets that learn addresses from DNS.
    pub learns: Vec<usize>,
}

/// Returns true if a protocol and a field are in FIELDS, e.g. `tls sni` or `http method`.
pub fn is_field(protocol: &str, field: &str) -> bool {
    let found = FIELDS.iter().find(|(known, _)| *known == protocol);
    found.is_some_and(|(_, fields)| fields.contains(&field))
}

fn is_asked(tokens: &Tokens, at: usize) -> bool {
    tokens.kind(at) == Kind::Word && is_field(tokens.get(at), tokens.get(at + 1))
}

/// Element types that only sets of names have.
const TYPES: [&str; 4] = ["hostname", "tls_version", "http_method", "dns_type"];

/// Kind of a set or map, by its elements.
enum SetKind {
    Names,
    /// A map from names, or a set of names with other fields.
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

/// Refuses a file of elements (`file "…"`) in a set whose elements are not names alone.
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

/// Finds the sets of names, the maps and sets with names in their key, and the sets that learn. Refuses a file of
/// elements in any set but those of names.
/// - names: out: the sets.
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

/// Returns true if a field is part of a concatenation.
fn is_joined(tokens: &Tokens, at: usize) -> bool {
    at > 0 && tokens.get(at - 1) == "." || tokens.get(at + 2) == "."
}

/// Parses the match of a name at a token, and returns it in the firewalls' language.
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

/// Returns the token index of a class's test: after the matches from `start` on, before the first statement with an
/// effect. So while a name is unknown, only packets for which these matches hold may be accepted.
/// - pure: matches of names.
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

/// Returns a match `FIELD exists` for each host field of a lookup with `!=`: without a name the lookup must not hold.
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

/// Finds the matches and the lookup of names in a rule. Returns None if there are none.
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

/// Finds all matches and sets of names in a policy.
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
        // Names with the same port become one set.
        let rule = "tcp dport . tls sni { 443 . \"a.example\", 443 . \"b.example\", 80 . \"c.example\" } ip ttl 3 drop";
        let names = find_in(rule).unwrap();
        let lookup = names.rules[0].lookup.as_ref().unwrap();
        assert_eq!(lookup.elements.len(), 2);
        assert_eq!(lookup.groups[0].values, ["\"a.example\"", "\"b.example\""]);
        // The test of the lookup comes after all matches.
        assert_eq!(lookup.place - lookup.tokens.end, 3);
        let names = find_in("iifname . tls sni != { \"e\" . \"a.example\" } drop").unwrap();
        assert_eq!(names.rules[0].asks[0].text, "tls sni exists");
    }
}
