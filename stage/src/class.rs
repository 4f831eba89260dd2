// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes: a class is the set of a policy's matches of names that hold for a connection.

use std::collections::{BTreeMap, HashMap};

use crate::key::Use;
use crate::lookup::{Element, Lookup};
use crate::names::{Ask, Group, NameRule, NameSet, Names};
use crate::probe::{self, Vector};
use crate::source::Source;
use crate::token::Tokens;
use crate::tree::{self, Tree};
use crate::Refusal;

/// Maximum number of matches of names in a class. The firewall's policy has one rule for each class with all its
/// matches, and the number of statements in a rule is limited.
const HOLDING_MAX: usize = 20;

/// Classes of a policy, numbered from 1. Class 1 is the class of connections without names.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// Texts of all matches of names, without duplicates.
    pub asks: Vec<String>,
    /// Vectors of the classes, from class 1 on: for each match of `asks`, true if it holds.
    pub vectors: Vec<Vector>,
    /// Index of a match in `asks`, by its text.
    places: HashMap<String, usize>,
}

impl Classes {
    fn new(asks: Vec<String>, vectors: Vec<Vector>) -> Classes {
        let places = asks.iter().cloned().zip(0..).collect();
        Classes {
            asks,
            vectors,
            places,
        }
    }

    /// Returns the numbers of all classes.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        (1..).take(self.vectors.len())
    }

    /// Returns true if a match holds for a class.
    pub fn holds(&self, number: u32, ask: &Ask) -> bool {
        let vector = &self.vectors[number as usize - 1];
        let place = self.places.get(&ask.text);
        place.is_some_and(|place| vector.get(*place) == Some(&true))
    }

    /// Returns the numbers of the classes for which all matches of `asks` hold.
    pub fn of(&self, asks: &[&Ask]) -> Vec<u32> {
        let hold = |number: &u32| asks.iter().all(|ask| self.holds(*number, ask));
        self.numbers().filter(hold).collect()
    }

    /// Returns those elements of a lookup whose matches of names all hold for a class. Other fields are not compared.
    /// - number: number of the class.
    pub fn elements<'s, 'a: 's>(
        &'s self,
        lookup: &'a Lookup,
        number: u32,
    ) -> impl Iterator<Item = &'a Element> + 's {
        let holds =
            move |element: &&'a Element| element.asks.iter().all(|ask| self.holds(number, ask));
        lookup.elements.iter().filter(holds)
    }

    /// Returns the numbers of the classes for which all name matches of a rule hold. For a lookup, the name matches of
    /// at least one element must hold; a negated lookup excludes no class. Matches of other fields are ignored.
    pub fn of_rule(&self, rule: &NameRule) -> Vec<u32> {
        let mut numbers = self.of(&rule.asks.iter().collect::<Vec<_>>());
        if let Some(lookup) = rule
            .lookup
            .as_ref()
            .filter(|lookup| lookup.of != Use::NotMember)
        {
            numbers.retain(|number| self.elements(lookup, *number).next().is_some());
        }
        numbers
    }

    /// Returns the texts of the matches that hold for a class.
    pub fn holding(&self, number: u32) -> Vec<&str> {
        let vector = self.vectors.get(number as usize - 1);
        let pairs = vector.into_iter().flatten().zip(&self.asks);
        pairs
            .filter(|(holds, _)| **holds)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

/// Returns the declaration of a set for the firewall's policy, with absolute paths in `file` and with `$NAME` replaced.
fn declaration(source: &Source, tokens: &Tokens, tree: &Tree, set: &NameSet) -> String {
    let mut text = String::new();
    for &part in &set.parts {
        let part = &tree.sets[part];
        let mut inner = tree::expand(tokens, tree, &part.inner);
        for at in part
            .inner
            .clone()
            .filter(|at| tokens.get(at.saturating_sub(1)) == "file")
        {
            let name = tokens.get(at).trim_matches('"');
            let folder = source.folder(tokens.start(at));
            let path = std::path::absolute(folder.join(name)).unwrap_or_else(|_| folder.join(name));
            inner = inner.replace(tokens.get(at), &format!("\"{}\"", path.display()));
        }
        let (verb, inner) = match part.is_element {
            true => ("add element", inner.replace('\n', " ")),
            false => ("add set", format!("\n{inner}\n")),
        };
        text += &format!("{verb} inet names {} {{{inner}}}\n", set.name);
    }
    text
}

/// Returns the element type of sets with values of a field of names.
fn type_of(field: &str) -> &'static str {
    match field {
        "tls version" => "tls_version",
        "http method" => "http_method",
        "dns type" => "dns_type",
        _ => "hostname",
    }
}

/// Returns the declaration of a group (a set of names that was made from a lookup's elements), in one line.
fn group_line(group: &Group) -> String {
    let values: Vec<&str> = group.values.iter().map(String::as_str).collect();
    format!(
        "add set inet names {} {{ type {}; elements = {{ {} }}; }}\n",
        group.name,
        type_of(&group.field),
        values.join(", ")
    )
}

fn groups(names: &Names) -> impl Iterator<Item = &Group> {
    let lookups = names.rules.iter().filter_map(|rule| rule.lookup.as_ref());
    lookups.flat_map(|lookup| &lookup.groups)
}

/// Returns the declarations of a policy's sets of names for the firewall's policy, in whole lines.
pub fn declarations(source: &Source, tokens: &Tokens, tree: &Tree, names: &Names) -> String {
    let sets = names
        .sets
        .iter()
        .map(|set| declaration(source, tokens, tree, set));
    let made = groups(names).map(group_line);
    format!(
        "add table inet names\n{}",
        sets.chain(made).collect::<String>()
    )
}

/// Finds the classes of a policy. Refuses matches that the firewalls refuse, more than HOLDING_MAX matches that hold
/// together, and too many protocols of `tls alpn`.
/// - sets: declarations of the sets of names, as `declarations` returns them.
pub fn find(tokens: &Tokens, names: &Names, sets: &str) -> Result<Classes, Refusal> {
    let mut asks: BTreeMap<&str, &Ask> = BTreeMap::new();
    for ask in names.rules.iter().flat_map(NameRule::all) {
        asks.entry(&ask.text).or_insert(ask);
    }
    let texts: Vec<(String, String)> = asks
        .values()
        .map(|ask| (ask.field.clone(), ask.text.clone()))
        .collect();
    let (before, made) = (sets.lines().count(), groups(names).count());
    let probe = probe::make(sets, &texts).map_err(|(line, cause)| {
        let ask = line
            .checked_sub(before + 4)
            .and_then(|line| asks.values().nth(line));
        let group = line
            .checked_sub(before - made + 1)
            .and_then(|line| groups(names).nth(line));
        let at = ask.map(|ask| ask.tokens.start);
        let at = at.or(group.map(|group| group.token)).unwrap_or(0);
        Refusal::at(tokens, at, cause, "see the chapter on names of GRAMMAR.md")
    })?;
    let vectors = probe.vectors();
    let most = vectors
        .iter()
        .map(|vector| vector.iter().filter(|holds| **holds).count())
        .max();
    if most.unwrap_or(0) > HOLDING_MAX {
        let reason =
            format!("more than {HOLDING_MAX} matches of names can hold for one connection");
        return Err(Refusal::at(
            tokens,
            0,
            reason,
            "join sets of names that lead to the same verdict",
        ));
    }
    let texts = texts.into_iter().map(|(_, text)| text).collect();
    Ok(Classes::new(texts, vectors))
}
