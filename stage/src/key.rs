// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys of lookups with names: their fields, and the use of the element that is found.

use std::ops::Range;

use crate::matches;
use crate::names;
use crate::token::{Kind, Tokens};
use crate::Refusal;

/// Field of a key, as its words in the policy: a field of names, or another field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Name(String),
    Other(String),
}

/// Effect of a lookup (a search in a set or map) on its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The rule continues if an element is found.
    Member,
    /// The rule continues if no element is found.
    NotMember,
    /// The verdict of the found element is executed.
    Verdict,
    /// A statement uses the value of the found element.
    Value,
}

impl Use {
    /// Returns true if the lookup's elements have a verdict or a value: it is a search in a map.
    pub fn is_map(self) -> bool {
        matches!(self, Use::Verdict | Use::Value)
    }
}

/// Key of a lookup (a search in a set or map) with a field of names, and its position in the policy.
#[derive(Clone, Debug)]
pub struct Key {
    /// Tokens from the key's first word to the end of the lookup.
    pub tokens: Range<usize>,
    pub parts: Vec<Part>,
    pub of: Use,
    /// Token of the set's name, or of the opening brace of the elements.
    pub right: usize,
    /// First token of the lookup. If a statement uses the lookup's value: first token of the statement, or the token
    /// after the lookup if the statement is not supported.
    pub place: usize,
}

/// Maximum number of words in a field of a key.
const WORDS_MAX: usize = 4;

/// Parses a field of a key. Returns None if it is no field.
/// - range: tokens of the field, without the dot, operator or set after it.
fn read_part(tokens: &Tokens, range: Range<usize>) -> Option<Part> {
    let words: Vec<&str> = range.clone().map(|at| tokens.get(at)).collect();
    let text = words.join(" ");
    let (first, rest) = words.split_first()?;
    if let [field] = rest {
        if names::is_field(first, field) {
            return Some(Part::Name(text));
        }
    }
    let is_word = range.into_iter().all(|at| tokens.kind(at) == Kind::Word);
    let has_group = ["meta", "ct", "socket"].contains(first) && rest.len() == 1;
    // A later word that begins a field shows that these are a match and the beginning of a key.
    let is_one = has_group || !rest.iter().any(|word| matches::begins(word));
    let is_whole = matches::is_alone(first) || !rest.is_empty();
    (is_word && is_one && is_whole && matches::begins(first) && words.len() <= WORDS_MAX)
        .then_some(Part::Other(text))
}

/// Returns the first token after the fields of a key: an operator, `map`, `vmap`, or a set; `end` if there is none.
/// - start: first token of the fields.
/// - end: first token after the rule.
fn fields_end(tokens: &Tokens, start: usize, end: usize) -> usize {
    let is_end = |at: &usize| {
        let word = tokens.get(*at);
        let is_sign = tokens.kind(*at) == Kind::Sign && word != ".";
        is_sign
            || word.starts_with(['@', '$', '"'])
            || matches::is_operator(word)
            || ["map", "vmap"].contains(&word)
    };
    (start..end).find(is_end).unwrap_or(end)
}

/// Returns the first token of the statement that uses the value of a map. None: no supported statement.
/// - key: first token of the map's key.
/// - start: first token of the rule.
fn statement(tokens: &Tokens, key: usize, start: usize) -> Option<usize> {
    let word = |back: usize| {
        key.checked_sub(back)
            .filter(|at| *at >= start)
            .map(|at| tokens.get(at))
    };
    match (word(3), word(2), word(1)) {
        (Some("meta" | "ct"), Some(_), Some("set")) => Some(key - 3),
        (_, Some("mark"), Some("set")) => Some(key - 2),
        (_, Some("counter" | "limit" | "quota"), Some("name")) => Some(key - 2),
        (_, Some("dnat" | "snat"), Some("to")) => Some(key - 2),
        _ => None,
    }
}

/// Parses the lookup that begins at a token, if it is a lookup with a name in its key. A match of a single name is not
/// a lookup.
/// - range: tokens of the rule.
/// - start: the token.
pub fn read(tokens: &Tokens, range: &Range<usize>, start: usize) -> Option<Key> {
    let is_inside = start > range.start && tokens.get(start - 1) == ".";
    if is_inside {
        return None;
    }
    let end = fields_end(tokens, start, range.end);
    let fields: Vec<usize> = (start..end).collect();
    let parts: Vec<Part> = fields
        .split(|at| tokens.get(*at) == ".")
        .map(|part| read_part(tokens, *part.first()?..part.last()? + 1))
        .collect::<Option<_>>()?;
    let is_name = |part: &Part| matches!(part, Part::Name(_));
    let word = tokens.get(end);
    let is_map = ["map", "vmap"].contains(&word);
    if !parts.iter().any(is_name) || parts.len() == 1 && !is_map {
        return None;
    }
    let of = match word {
        "vmap" => Use::Verdict,
        "map" => Use::Value,
        "!=" | "ne" => Use::NotMember,
        _ => Use::Member,
    };
    let right = end + usize::from(is_map || matches::is_operator(word));
    let behind = match tokens.get(right) {
        "{" => tokens.behind_braces(right),
        _ => right + 1,
    };
    let place = match of {
        Use::Value => statement(tokens, start, range.start).unwrap_or(behind),
        _ => start,
    };
    Some(Key {
        tokens: start..behind,
        parts,
        of,
        right,
        place,
    })
}

/// Refuses a lookup's key that tests of classes can't replace.
pub fn check(tokens: &Tokens, key: &Key) -> Result<(), Refusal> {
    let refuse = |reason, cure| Err(Refusal::at(tokens, key.tokens.start, reason, cure));
    let names: Vec<&str> = key
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Name(text) => Some(text.as_str()),
            Part::Other(_) => None,
        })
        .collect();
    let protocols: Vec<&str> = names
        .iter()
        .filter_map(|name| name.split(' ').next())
        .collect();
    if names.contains(&"tls alpn") {
        return refuse(
            "a client may offer several protocols, and a lookup has one",
            "write a rule for each protocol",
        );
    }
    if protocols.windows(2).any(|pair| pair[0] != pair[1]) {
        return refuse(
            "no connection has names of two protocols",
            "write a lookup for each",
        );
    }
    if key.of == Use::Value && key.place >= key.tokens.start {
        return refuse(
            "this statement takes no value by name",
            "set a mark by name (`meta mark set tls sni map`), and match that mark",
        );
    }
    let has_host = names
        .iter()
        .any(|name| !["tls version", "http method", "dns type"].contains(name));
    if key.of == Use::NotMember && !has_host {
        return refuse(
            "`!=` of a key without the name of a host",
            "write a rule that goes on for the elements, and another rule after it",
        );
    }
    Ok(())
}
