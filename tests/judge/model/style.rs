// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes one policy in different styles: `add` lines or blocks, `define`, comments, blanks, joined lines.

use super::random::Random;
use super::tree::{Policy, Table};

/// Returns a policy's text in a random style.
pub fn styled(policy: &Policy, random: &mut Random) -> String {
    let text = match random.percent(25) {
        true => added(policy),
        false => policy.to_string(),
    };
    let text = match random.percent(40) {
        true => defined(&text, random),
        false => text,
    };
    match random.percent(70) {
        true => blanks(&text, random),
        false => text,
    }
}

/// Returns a policy as commands: one `add` line per table, set, chain and rule.
fn added(policy: &Policy) -> String {
    let mut text = String::new();
    if policy.flush {
        text.push_str("flush ruleset\n");
    }
    for table in &policy.tables {
        text.push_str(&added_table(table));
    }
    text
}

fn added_table(table: &Table) -> String {
    let place = format!("{} {}", table.family.text(), table.name);
    let mut text = format!("add table {place}\n");
    for chain in &table.chains {
        let head = match &chain.base {
            None => String::new(),
            Some(base) => {
                let policy = base
                    .policy
                    .map_or(String::new(), |policy| format!(" policy {policy};"));
                format!(" {{ {}{policy} }}", base.head())
            }
        };
        text.push_str(&format!("add chain {place} {}{head}\n", chain.name));
    }
    for set in &table.sets {
        let mut lines = set.lines.join("; ");
        // A constant set accepts no later elements.
        let constant = lines.contains("constant");
        if constant && !set.elements.is_empty() {
            lines = format!("{lines}; {}", set.elements_text());
        }
        text.push_str(&format!(
            "add {} {place} {} {{ {lines}; }}\n",
            set.word, set.name
        ));
        if !set.elements.is_empty() && !constant {
            let elements = set.elements_text();
            let elements = elements.trim_start_matches("elements = ");
            text.push_str(&format!("add element {place} {} {elements}\n", set.name));
        }
    }
    for chain in &table.chains {
        for rule in &chain.rules {
            text.push_str(&format!("add rule {place} {} {rule}\n", chain.name));
        }
    }
    text
}

/// Replaces some of a policy's values, chosen at random, by variables, and prepends the variables' `define` lines.
fn defined(text: &str, random: &mut Random) -> String {
    let mut defines = String::new();
    let mut out = String::new();
    let mut before = "";
    for token in tokens(text) {
        let number = token.starts_with(|first: char| first.is_ascii_digit());
        let whole = number && !token.contains(['-', '/']);
        // Defined names are used only where nft accepts them as well, not in counters, limits and the like.
        let value = matches!(
            before,
            "{" | "," | "." | "dport" | "sport" | "saddr" | "daddr"
        );
        if !token.trim().is_empty() {
            before = token;
        }
        if whole && value && random.percent(20) {
            let name = format!("d{}", defines.lines().count());
            defines.push_str(&format!("define {name} = {token}\n"));
            out.push_str(&format!("${name}"));
        } else {
            out.push_str(token);
        }
    }
    // `flush ruleset` stays before all tables, and defines may precede it.
    defines + &out
}

/// Splits a text into strings, comments, runs of blanks, single signs, and words.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            ' ' | '\t' => rest.len() - rest.trim_start_matches([' ', '\t']).len(),
            '{' | '}' | ';' | ',' | '\n' | '=' | '!' | '<' | '>' | '&' | '|' | '^' | '@' | '$' => 1,
            _ => rest
                .find([
                    ' ', '\t', '\n', '"', '{', '}', ';', ',', '=', '!', '<', '>', '&', '|', '^',
                    '@', '$', '#',
                ])
                .unwrap_or(rest.len())
                .max(first.len_utf8()),
        };
        let (token, left) = rest.split_at(length);
        tokens.push(token);
        rest = left;
    }
    tokens
}

/// Varies blanks, comments and line ends.
fn blanks(text: &str, random: &mut Random) -> String {
    let mut out = String::new();
    for token in tokens(text) {
        match token {
            "\n" => match random.below(12) {
                0 => out.push_str(" # a comment { ; \" of 'any' kind\n"),
                1 => out.push_str("\n\n"),
                2 => out.push_str(" ;\n"),
                _ => out.push('\n'),
            },
            _ if token.trim().is_empty() => match random.below(14) {
                0 => out.push_str("  "),
                1 => out.push('\t'),
                2 => out.push_str(" \\\n "),
                _ => out.push_str(token),
            },
            _ => out.push_str(token),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::generate::{policy, Profile};
    use super::*;

    #[test]
    fn tokens_are_the_whole_text() {
        let mut random = Random::new(11);
        for _ in 0..50 {
            let text = policy(&mut random, &Profile::full()).to_string();
            assert_eq!(tokens(&text).concat(), text);
        }
        assert_eq!(
            tokens("a \"b c\";#x\n"),
            ["a", " ", "\"b c\"", ";", "#x", "\n"]
        );
    }
}
