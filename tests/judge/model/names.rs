// SPDX-License-Identifier: GPL-2.0-or-later
//! Adds matches of names to policies: to random ones as statements, to written ones between their words.

use super::flow::{HOSTS, METHODS, PROTOCOLS};
use super::random::Random;
use super::tree::{Element, Policy, Set, Statement};

/// Most matches that are added to one policy.
const MATCHES_MAX: usize = 4;
/// A set of names that `add` declares in each table.
const SET: &str = "some_names";

/// Names in a list, each in quotes, some with all that is below them.
fn listed(random: &mut Random) -> Vec<String> {
    let mut names = Vec::new();
    for host in HOSTS {
        match random.below(4) {
            0 => names.push(format!("\"{host}\"")),
            1 => names.push(format!("\"*.{host}\"")),
            _ => {}
        }
    }
    if names.is_empty() {
        names.push(format!("\"{}\"", HOSTS[0]));
    }
    names
}

/// Returns a match of a name.
fn matching(random: &mut Random) -> String {
    let field = *random.pick(&["tls sni", "tls sni", "http host", "dns name"]);
    let op = *random.pick(&["", "", "!= "]);
    match random.below(8) {
        0 => format!("{field} {}", random.pick(&["exists", "missing"])),
        1 | 2 => format!("{field} {op}@{SET}"),
        3 => format!("{field} {op}{{ {} }}", listed(random).join(", ")),
        4 => format!("tls alpn {op}\"{}\"", random.pick(&PROTOCOLS)),
        5 => format!("http method {op}\"{}\"", random.pick(&METHODS)),
        _ => format!("{field} {op}\"{}\"", random.pick(&HOSTS)),
    }
}

/// Adds matches of names to rules of a policy, each before one of a rule's statements, and a set of names to each table.
pub fn add(random: &mut Random, policy: &mut Policy) {
    let mut places = Vec::new();
    for (table, tables) in policy.tables.iter().enumerate() {
        for (chain, chains) in tables.chains.iter().enumerate() {
            for (rule, rules) in chains.rules.iter().enumerate() {
                places.extend((0..rules.statements.len()).map(|at| (table, chain, rule, at)));
            }
        }
    }
    for _ in 0..(1 + random.below(MATCHES_MAX)).min(places.len()) {
        let (table, chain, rule, at) = *random.pick(&places);
        let statement = Statement {
            head: matching(random),
            ..Statement::default()
        };
        policy.tables[table].chains[chain].rules[rule]
            .statements
            .insert(at, statement);
    }
    for table in &mut policy.tables {
        let elements = listed(random).into_iter().map(|text| Element {
            text,
            ranges: Vec::new(),
        });
        table.sets.push(Set {
            word: "set",
            name: SET.to_owned(),
            lines: vec!["type hostname".to_owned()],
            elements: elements.collect(),
        });
    }
}

/// Bytes of a line at which its rule and its last verdict begin. None if the line is no whole rule.
fn places(line: &str) -> Option<(usize, usize)> {
    let start = line.len() - line.trim_start().len();
    let rule = line.trim_end();
    let words: Vec<&str> = rule.split_whitespace().collect();
    let first = *words.first()?;
    let is_none = |word: &str| {
        [
            "type", "policy", "elements", "define", "add", "insert", "chain", "table", "#",
        ]
        .contains(&word)
    };
    let is_whole =
        rule.matches('{').count() == rule.matches('}').count() && !rule.contains([';', '#']);
    let verdict = words
        .iter()
        .rposition(|word| ["accept", "drop", "reject", "jump", "goto", "return"].contains(word))?;
    let behind = words.len() - verdict - 1;
    let is_verdict = behind == usize::from(["jump", "goto"].contains(&words[verdict]))
        && !first.starts_with(['}', '"', '#']);
    let end = rule.rfind(words.get(verdict)?)?;
    (!is_none(first) && is_whole && is_verdict).then_some((start, end))
}

/// Returns a written policy with one to three names, each in front of a rule's matches or behind them. None if it has no line
/// that is a whole rule.
/// - names: matches to pick from.
pub fn written(text: &str, names: &[&str], random: &mut Random) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let rules: Vec<usize> = (0..lines.len())
        .filter(|at| places(&lines[*at]).is_some())
        .collect();
    if rules.is_empty() {
        return None;
    }
    for _ in 0..1 + random.below(3) {
        let at = *random.pick(&rules);
        let (start, end) = places(&lines[at])?;
        let name = random.pick(names);
        let place = if random.below(2) == 0 { start } else { end };
        lines[at].insert_str(place, &format!("{name} "));
    }
    Some(lines.join("\n") + "\n")
}
