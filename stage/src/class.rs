// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes: what distinguishes the names that a connection can have, for this policy. Each is the matches that hold.

use std::collections::{BTreeMap, HashMap};

use crate::key::Use;
use crate::lookup::{Element, Lookup};
use crate::names::{Ask, Group, NameRule, NameSet, Names};
use crate::probe::{self, Vector};
use crate::source::Source;
use crate::token::Tokens;
use crate::tree::{self, Tree};
use crate::Refusal;

/// Matches that a rule of the firewall's policy has room for.
const HOLDING_MAX: usize = 20;

/// The classes of a policy, numbered from 1. The first is that of a connection without names.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The texts of all matches, each once.
    pub asks: Vec<String>,
    /// Matches that hold, for class 1, 2, ….
    pub vectors: Vec<Vector>,
    /// Places in `asks`.
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

    /// The numbers of all classes.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        (1..).take(self.vectors.len())
    }

    /// Whether a match holds for a class.
    pub fn holds(&self, number: u32, ask: &Ask) -> bool {
        let vector = &self.vectors[number as usize - 1];
        let place = self.places.get(&ask.text);
        place.is_some_and(|place| vector.get(*place) == Some(&true))
    }

    /// The numbers of the classes of which all matches of a rule hold.
    pub fn of(&self, asks: &[&Ask]) -> Vec<u32> {
        let hold = |number: &u32| asks.iter().all(|ask| self.holds(*number, ask));
        self.numbers().filter(hold).collect()
    }

    /// The elements that stand for a class, if their other fields do.
    pub fn elements<'s, 'a: 's>(
        &'s self,
        lookup: &'a Lookup,
        number: u32,
    ) -> impl Iterator<Item = &'a Element> + 's {
        let holds =
            move |element: &&'a Element| element.asks.iter().all(|ask| self.holds(number, ask));
        lookup.elements.iter().filter(holds)
    }

    /// The numbers of the classes for which a rule holds, if its other matches do.
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

    /// The texts of the matches that hold for a class.
    pub fn holding(&self, number: u32) -> Vec<&str> {
        let vector = self.vectors.get(number as usize - 1);
        let pairs = vector.into_iter().flatten().zip(&self.asks);
        pairs
            .filter(|(holds, _)| **holds)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

/// The declaration of a set as the firewall's policy has it: `file` with the whole path, `$NAME` replaced.
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
        let is_element = tokens.get(part.tokens.start) == "add"
            && tokens.get(part.tokens.start + 1) == "element";
        let verb = if is_element { "add element" } else { "add set" };
        let inner = if is_element {
            inner.replace('\n', " ")
        } else {
            format!("\n{inner}\n")
        };
        text += &format!("{verb} inet names {} {{{inner}}}\n", set.name);
    }
    text
}

/// The type of a field of names.
fn type_of(field: &str) -> &'static str {
    match field {
        "tls version" => "tls_version",
        "http method" => "http_method",
        "dns type" => "dns_type",
        _ => "hostname",
    }
}

/// A set of a lookup's names, in one line.
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

/// The sets of a policy as the firewall's policy has them, whole lines.
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

/// Finds the classes of a policy.
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
