// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes: what distinguishes the names that a connection can have, for this policy. Each is the matches that hold.

use std::collections::BTreeMap;

use crate::names::{Ask, NameRule, NameSet, Names};
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
}

impl Classes {
    /// The numbers of the classes of which all matches of a rule hold.
    pub fn of(&self, asks: &[&Ask]) -> Vec<u32> {
        let index = |ask: &&Ask| self.asks.iter().position(|text| *text == ask.text);
        let wanted: Vec<Option<usize>> = asks.iter().map(index).collect();
        let holds = |vector: &Vector| {
            let mut wanted = wanted.iter();
            wanted.all(|index| index.is_some_and(|index| vector.get(index) == Some(&true)))
        };
        let numbered = (1..).zip(&self.vectors);
        numbered
            .filter(|(_, vector)| holds(vector))
            .map(|(number, _)| number)
            .collect()
    }

    /// The numbers of the classes for which a rule holds, if its other matches do.
    pub fn of_rule(&self, rule: &NameRule) -> Vec<u32> {
        let mut numbers = self.of(&rule.asks.iter().collect::<Vec<_>>());
        if let Some(map) = &rule.verdicts {
            numbers.retain(|number| map.of(self, *number).is_some());
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

/// The sets of a policy as the firewall's policy has them, whole lines.
pub fn declarations(source: &Source, tokens: &Tokens, tree: &Tree, names: &Names) -> String {
    let sets = names
        .sets
        .iter()
        .map(|set| declaration(source, tokens, tree, set));
    format!("add table inet names\n{}", sets.collect::<String>())
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
    let first = sets.lines().count() + 4;
    let probe = probe::make(sets, &texts).map_err(|(line, cause)| {
        let ask = line
            .checked_sub(first)
            .and_then(|line| asks.values().nth(line));
        let at = ask.map_or(0, |ask| ask.tokens.start);
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
    Ok(Classes {
        asks: texts.into_iter().map(|(_, text)| text).collect(),
        vectors,
    })
}
