// SPDX-License-Identifier: GPL-2.0-or-later
//! `rules`: lists the rules of the policy with their counters.

use serde_json::json;

use crate::answer::{Rule, Rules};
use crate::arguments::Arguments;
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{self, Side};
use crate::units::thousands;

/// Number of blanks before the continuation lines of a rule.
const INDENT: usize = 8;

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let answer = client.ask(&json!({"command": "rules"}))?;
    let rules: Rules = answer.read()?;
    match arguments.json {
        true => output::json(&[answer.line]),
        false => output::fitting(&text(&rules), INDENT),
    };
    Ok(Exit::Fine)
}

/// Formats packets and bytes of a rule's first counter; "-" without a counter. Later counters can't count more.
fn counted(rule: &Rule) -> [String; 2] {
    match rule.counters.first() {
        Some(counter) => [counter.packets, counter.bytes].map(thousands),
        None => ["-", "-"].map(str::to_owned),
    }
}

/// Returns a rule's text without the initial values of its counters, which are not the current counts.
pub fn plain_text(text: &str) -> String {
    let mut words = text.split(' ');
    let mut plain: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        plain.push(word);
        let mut ahead = words.clone();
        let begins = word == "counter"
            && ahead.next() == Some("packets")
            && ahead
                .next()
                .is_some_and(|number| number.parse::<u64>().is_ok())
            && ahead.next() == Some("bytes")
            && ahead
                .next()
                .is_some_and(|number| number.parse::<u64>().is_ok());
        if begins {
            words = ahead;
        }
    }
    plain.join(" ")
}

fn row(rule: &Rule) -> [String; 4] {
    let [packets, bytes] = counted(rule);
    let logged: u64 = rule.logs.iter().map(|log| log.packets).sum();
    let mut text = plain_text(&rule.text);
    if logged > 0 {
        text.push_str(&format!("  (logged {})", thousands(logged)));
    }
    [rule.rule.clone(), packets, bytes, text]
}

/// Formats the rules for people: a table, with a line before each chain.
pub fn text(rules: &Rules) -> Vec<String> {
    if rules.rules.is_empty() {
        return vec!["no rules: there is no policy, or it is empty".to_owned()];
    }
    let head = ["rule", "packets", "bytes", "text"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head)
        .chain(rules.rules.iter().map(row))
        .collect();
    let sides = [Side::Left, Side::Right, Side::Right, Side::Left];
    let mut lines = table::lines(sides, &rows).into_iter();
    let mut out: Vec<String> = lines.next().into_iter().collect();
    let mut chain = None;
    for (rule, line) in rules.rules.iter().zip(lines) {
        let name = Some((&rule.table, &rule.chain));
        if chain != name {
            chain = name;
            out.push(format!("chain {} {}", rule.table, rule.chain));
        }
        out.push(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_counters_are_left_out() {
        for (text, plain) in [
            ("counter packets 0 bytes 0 accept", "counter accept"),
            (
                "tcp dport 1 counter packets 12 bytes 3",
                "tcp dport 1 counter",
            ),
            (
                "comment \"counter packets are bytes\"",
                "comment \"counter packets are bytes\"",
            ),
        ] {
            assert_eq!(plain_text(text), plain);
        }
    }
}
