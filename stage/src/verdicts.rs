// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps from names to verdicts: `tls sni vmap { "a.example" : drop, "*.b.example" : jump x }` or `vmap @m`.

use std::ops::Range;

use crate::class::Classes;
use crate::names::Ask;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};
use crate::Refusal;

/// A map by names that ends a rule.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// From the field's words on.
    pub tokens: Range<usize>,
    /// Each key as a match, and where it leads.
    pub elements: Vec<(Ask, String)>,
}

/// How little the names of a key stand for.
fn rank(ask: &Ask) -> (bool, usize) {
    let key = ask.text.split(' ').nth(2).unwrap_or_default();
    (!key.starts_with("\"*."), key.len())
}

impl Verdicts {
    /// Verdict for the names of a class: that of the key that stands for the least.
    pub fn of(&self, classes: &Classes, number: u32) -> Option<&str> {
        let holding = classes.holding(number);
        let held = self
            .elements
            .iter()
            .filter(|(ask, _)| holding.contains(&ask.text.as_str()));
        held.max_by_key(|(ask, _)| rank(ask))
            .map(|(_, verdict)| verdict.as_str())
    }
}

/// Reads the elements between braces.
/// - places: field and place of the map that each key is a match of
fn elements(
    tokens: &Tokens,
    tree: &Tree,
    places: (&str, usize),
    inner: Range<usize>,
) -> Result<Vec<(Ask, String)>, Refusal> {
    let (field, place) = places;
    let mut found = Vec::new();
    let written: Vec<usize> = inner.filter(|at| tokens.kind(*at) != Kind::End).collect();
    for element in written.split(|at| tokens.get(*at) == ",") {
        let Some((&first, _)) = element.split_first() else {
            continue;
        };
        let cure = "write a rule for each verdict, with a set of its names";
        let refuse = || {
            Refusal::at(
                tokens,
                first,
                "an element that is no name with its verdict",
                cure,
            )
        };
        let colon = element
            .iter()
            .position(|at| tokens.get(*at) == ":")
            .ok_or_else(refuse)?;
        let (key, verdict) = (&element[..colon], &element[colon + 1..]);
        let (1, 1..=2) = (key.len(), verdict.len()) else {
            return Err(refuse());
        };
        let key = tree::expand(tokens, tree, &(first..first + 1));
        let words: Vec<&str> = verdict.iter().map(|at| tokens.get(*at)).collect();
        let ask = Ask {
            tokens: first..first + 1,
            field: field.to_owned(),
            text: format!("{field} {key}"),
            place,
        };
        found.push((ask, words.join(" ")));
    }
    Ok(found)
}

/// The elements of a named map, from its block and what is added to it.
fn named(tokens: &Tokens, tree: &Tree, table: usize, name: &str) -> Vec<Range<usize>> {
    let parts = tree
        .sets
        .iter()
        .filter(|set| set.table == table && set.name == name);
    let inner = parts.flat_map(|set| {
        let words = set.inner.clone();
        let is_added = tokens.get(set.tokens.start + 1) == "element";
        let listed = words.clone().filter(|at| tokens.get(*at) == "{");
        match is_added {
            true => vec![words],
            false => listed
                .map(|open| open + 1..tokens.behind_braces(open) - 1)
                .collect(),
        }
    });
    inner.collect()
}

/// Reads the map that begins at a token with its field, in a table's rule.
pub fn read(tokens: &Tokens, tree: &Tree, table: usize, at: usize) -> Result<Verdicts, Refusal> {
    let field = format!("{} {}", tokens.get(at), tokens.get(at + 1));
    let key = at + 3;
    if field == "tls alpn" {
        let reason = "a client may offer several protocols, and a map has one verdict";
        return Err(Refusal::at(
            tokens,
            at,
            reason,
            "write a rule for each protocol",
        ));
    }
    let (inner, end) = match tokens.get(key).strip_prefix('@') {
        Some(name) => (named(tokens, tree, table, name), key + 1),
        None => {
            let behind = tokens.behind_braces(key);
            (std::iter::once(key + 1..behind - 1).collect(), behind)
        }
    };
    let mut all = Vec::new();
    for inner in inner {
        all.extend(elements(tokens, tree, (&field, at), inner)?);
    }
    if all.is_empty() {
        let cure = "give it elements, or leave the rule out";
        return Err(Refusal::at(
            tokens,
            at,
            "a map of names without elements",
            cure,
        ));
    }
    Ok(Verdicts {
        tokens: at..end,
        elements: all,
    })
}
