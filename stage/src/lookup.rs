// SPDX-License-Identifier: GPL-2.0-or-later
//! Lookups with names in the key: in maps (`tls sni vmap { … }`, `meta mark set tls sni map @m`), and with other
//! fields also in sets (`ip daddr . tls sni @s`).

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use crate::key::{self, Part, Use};
use crate::names::{Ask, Group};
use crate::others::{Fields, Others};
use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};
use crate::Refusal;

/// Element of a lookup. It holds for a packet if all its matches of names hold and the other fields are in its ranges.
#[derive(Clone, Debug)]
pub struct Element {
    pub asks: Vec<Ask>,
    pub others: Others,
    /// Verdict or value of the element; empty in a set.
    pub leads: String,
}

/// Lookup (a search in a set or map) with a name in its key.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Tokens from the key's first word to the end of the lookup.
    pub tokens: Range<usize>,
    pub of: Use,
    pub fields: Fields,
    /// Elements in order. The first element that holds for a packet counts.
    pub elements: Vec<Element>,
    /// Sets of names that were made from the elements; the elements' matches refer to them.
    pub groups: Vec<Group>,
    /// Index of the token at which the kernel's test of the class is written. It depends on `of`:
    /// - Member: token after the lookup and the matches directly after it.
    /// - Verdict: first token of the lookup.
    /// - Value: first token of the statement that uses the value.
    /// - NotMember: unused.
    pub place: usize,
}

/// Element as it is written: token indexes of the value of each field, and of the verdict or value.
struct Written {
    values: Vec<Vec<usize>>,
    leads: Vec<usize>,
}

/// Parser of one lookup.
struct Reader<'a> {
    tokens: &'a Tokens,
    tree: &'a Tree,
    key: &'a key::Key,
}

/// Returns the sort key of an element: exact host names come before names with `*.`, and longer names before shorter
/// ones.
fn width(element: &Element) -> (bool, std::cmp::Reverse<usize>) {
    let names = element.asks.iter();
    let host = names
        .map(|ask| ask.text.split(' ').nth(2).unwrap_or_default())
        .find(|value| value.starts_with('"'));
    let host = host.unwrap_or_default();
    (host.starts_with("\"*."), std::cmp::Reverse(host.len()))
}

impl Reader<'_> {
    fn text(&self, tokens: &[usize], between: &str) -> String {
        let words: Vec<&str> = tokens.iter().map(|at| self.tokens.get(*at)).collect();
        words.join(between)
    }

    /// Returns the tokens of the elements, without braces and line ends. A named set may have several lists of
    /// elements: usize::MAX ends the tokens of each list.
    fn listed(&self, table: usize) -> Vec<usize> {
        let right = self.key.right;
        let ranges: Vec<Range<usize>> = match self.tokens.get(right).strip_prefix('@') {
            Some(name) => named(self.tokens, self.tree, table, name),
            None => iter::once(right..self.key.tokens.end).collect(),
        };
        let mut all = Vec::new();
        for range in ranges {
            let own = tree::flat(self.tokens, self.tree, &range).into_iter();
            all.extend(own.filter(|at| {
                self.tokens.kind(*at) != Kind::End && !["{", "}"].contains(&self.tokens.get(*at))
            }));
            all.push(usize::MAX);
        }
        all
    }

    fn written(&self, element: &[usize]) -> Result<Written, Refusal> {
        let colon = element.iter().position(|at| self.tokens.get(*at) == ":");
        let (key, leads) = match colon {
            Some(colon) => (&element[..colon], &element[colon + 1..]),
            None => (element, &[][..]),
        };
        let values: Vec<Vec<usize>> = key
            .split(|at| self.tokens.get(*at) == ".")
            .map(<[usize]>::to_vec)
            .collect();
        let is_whole = values.len() == self.key.parts.len()
            && values.iter().all(|value| !value.is_empty())
            && leads.is_empty() != self.key.of.is_map();
        if !is_whole {
            let cure = "give each element a value for each field of the key, and in a map what it leads to";
            let at = element.first().copied().unwrap_or(self.key.tokens.start);
            return Err(Refusal::at(
                self.tokens,
                at,
                "an element that is not understood",
                cure,
            ));
        }
        Ok(Written {
            values,
            leads: leads.to_vec(),
        })
    }

    /// Returns the elements as they are written. Refuses elements that the splitter can't parse, and a lookup without
    /// elements.
    fn all_written(&self, table: usize) -> Result<Vec<Written>, Refusal> {
        let listed = self.listed(table);
        let is_between = |at: &usize| *at == usize::MAX || self.tokens.get(*at) == ",";
        let elements = listed.split(is_between).filter(|one| !one.is_empty());
        let all: Vec<Written> = elements
            .map(|element| self.written(element))
            .collect::<Result<_, Refusal>>()?;
        if all.is_empty() {
            let reason = "a lookup of names without elements";
            let cure = "give it elements, or leave the rule out";
            return Err(Refusal::at(
                self.tokens,
                self.key.tokens.start,
                reason,
                cure,
            ));
        }
        Ok(all)
    }

    /// Returns the match of one value of a field of names.
    fn ask(&self, field: &str, value: &[usize]) -> Ask {
        let at = value[0];
        Ask {
            tokens: at..at + 1,
            field: field.to_owned(),
            text: format!("{field} {}", self.text(value, "")),
            place: self.key.tokens.start,
        }
    }

    /// Returns the ranges of the key's fields that are not names, for each element.
    /// - fields: in/out: the fields of the key that are not names. Stores the values of fields that the firewalls can't
    ///   compare.
    fn others(&self, fields: &mut Fields, written: &[Written]) -> Result<Vec<Others>, Refusal> {
        let is_other = |part: &Part| matches!(part, Part::Other(_));
        let texts: Vec<Vec<String>> = written
            .iter()
            .map(|one| {
                let pairs = self.key.parts.iter().zip(&one.values);
                let own = pairs.filter(|(part, _)| is_other(part));
                own.map(|(_, value)| self.text(value, "")).collect()
            })
            .collect();
        fields.read(&texts).map_err(|(number, cause)| {
            let at = written.get(number).map(|one| one.values[0][0]);
            let cure = "write a rule for it, with the name as a match of its own";
            Refusal::at(
                self.tokens,
                at.unwrap_or(self.key.tokens.start),
                cause,
                cure,
            )
        })
    }

    /// Returns the matches of an element's names, in the order of the key.
    fn asks(&self, written: &Written) -> Vec<Ask> {
        let pairs = self.key.parts.iter().zip(&written.values);
        let names = pairs.filter_map(|(part, value)| match part {
            Part::Name(field) => Some(self.ask(field, value)),
            Part::Other(_) => None,
        });
        names.collect()
    }
}

/// Returns the token ranges of the elements of a named set or map, from its declarations and from the commands that add
/// elements.
pub fn named(tokens: &Tokens, tree: &Tree, table: usize, name: &str) -> Vec<Range<usize>> {
    let parts = tree
        .sets
        .iter()
        .filter(|set| set.table == table && set.name == name);
    let inner = parts.flat_map(|set| {
        let words = set.inner.clone();
        let listed = words
            .clone()
            .filter(|at| tokens.get(*at) == "=" && tokens.get(at - 1) == "elements");
        match set.is_element {
            true => vec![words],
            false => listed.map(|at| at + 1..tokens.statement_end(at)).collect(),
        }
    });
    inner.collect()
}

/// Merges elements with the same other fields. Their names become a set (a group), which one match tests.
/// - prefix: prefix of the groups' names.
fn join(elements: Vec<Element>, prefix: &str) -> (Vec<Element>, Vec<Group>) {
    let mut same: BTreeMap<Vec<(u128, u128)>, Vec<Element>> = BTreeMap::new();
    for element in elements {
        let key = element.others.iter().map(|range| (range.low, range.high));
        same.entry(key.collect()).or_default().push(element);
    }
    let mut groups = Vec::new();
    let mut joined = Vec::new();
    for mut elements in same.into_values() {
        if elements.len() > 1 {
            let first = &elements[0].asks[0];
            let name = format!("{prefix}_{}", groups.len());
            let values = elements.iter().map(|element| {
                let text = &element.asks[0].text;
                text[element.asks[0].field.len() + 1..].to_owned()
            });
            groups.push(Group {
                token: first.tokens.start,
                field: first.field.clone(),
                name: name.clone(),
                values: values.collect(),
            });
            elements.truncate(1);
            elements[0].asks[0].text = format!("{} @{name}", elements[0].asks[0].field);
        }
        joined.extend(elements);
    }
    (joined, groups)
}

/// Parses the lookup with a key, in a rule of a table.
pub fn read(tokens: &Tokens, tree: &Tree, table: usize, key: &key::Key) -> Result<Lookup, Refusal> {
    key::check(tokens, key)?;
    let reader = Reader { tokens, tree, key };
    let written = reader.all_written(table)?;
    let texts = key.parts.iter().filter_map(|part| match part {
        Part::Other(text) => Some(text.clone()),
        Part::Name(_) => None,
    });
    let mut fields = Fields::new(texts.collect());
    let others = reader.others(&mut fields, &written)?;
    let pairs = written.iter().zip(others);
    let element = |(written, others): (&Written, Others)| Element {
        asks: reader.asks(written),
        others,
        leads: reader.text(&written.leads, " "),
    };
    let mut elements: Vec<Element> = pairs.map(element).collect();
    let mut groups = Vec::new();
    if key.of.is_map() {
        elements.sort_by_key(width);
    } else if elements[0].asks.len() == 1 {
        (elements, groups) = join(elements, &format!("key{}", key.tokens.start));
    }
    Ok(Lookup {
        tokens: key.tokens.clone(),
        of: key.of,
        fields,
        elements,
        groups,
        place: key.place,
    })
}
