// SPDX-License-Identifier: GPL-2.0-or-later
//! Extracts the examples of GRAMMAR.md: in its indented blocks, after a production and three or more blanks, or on a
//! separate line.

use anyhow::{bail, ensure};

/// Notes of GRAMMAR.md in its column of examples; they are not examples.
const NOTES: [&str; 6] = [
    "without it: ip",
    "without it: warn",
    "left out: ==",
    "(1, 1024, 1048576)",
    "at most 5 fields",
    "applied with C's precedence (& before ^ before |)",
];
/// Heading in GRAMMAR.md after which no example follows, only a whole policy.
const END: &str = "## The canonical print";

#[derive(Clone, Debug)]
pub struct Example {
    pub line: usize,
    pub production: String,
    pub text: String,
}

/// Returns each line of the indented blocks of GRAMMAR.md before END: its number from 1, the production to which it
/// belongs, and its parts, which three or more blanks separate.
fn lines(text: &str) -> Vec<(usize, String, Vec<&str>)> {
    let mut production = String::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with(END) {
            break;
        }
        let Some(line) = line.strip_prefix("    ") else {
            continue;
        };
        let name = line.split_once('=').map_or("", |(name, _)| name.trim_end());
        if !line.starts_with(' ') && !name.contains(' ') {
            production = name.to_string();
        }
        let parts = line
            .split("   ")
            .map(str::trim)
            .filter(|part| !part.is_empty());
        found.push((index + 1, production.clone(), parts.collect()));
    }
    found
}

pub fn examples(text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    for (line, production, parts) in lines(text) {
        // True for the production itself, or a further alternative of it.
        let defines = |part: &&str| {
            let rest = part.strip_prefix(production.as_str());
            part.starts_with('|') || rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let bare = parts.len() == 1 && parts.first().is_some_and(defines);
        let Some(last) = parts.last().filter(|_| !bare) else {
            continue;
        };
        if !NOTES.contains(last) && !last.starts_with("= ") {
            examples.push(Example {
                line,
                production,
                text: last.to_string(),
            });
        }
    }
    examples
}

/// Checks that every production of the grammar has an example.
/// - text: text of GRAMMAR.md.
pub fn check_coverage(text: &str) -> anyhow::Result<()> {
    let examples = examples(text);
    let mut productions: Vec<String> = lines(text).into_iter().map(|line| line.1).collect();
    productions.dedup();
    ensure!(productions.len() > 40, "only {productions:?} were found");
    for production in productions {
        if !examples
            .iter()
            .any(|example| example.production == production)
        {
            bail!("{production} has no example");
        }
    }
    Ok(())
}

/// Returns the policy in GRAMMAR.md's section "The canonical print"; None if the section is missing.
pub fn canonical(text: &str) -> Option<String> {
    let (_, after) = text.split_once(END)?;
    let lines = after.lines().skip_while(|line| !line.starts_with("    "));
    let block = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    let lines: Vec<&str> = block
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .collect();
    Some(lines.join("\n").trim_end().to_string() + "\n")
}

impl Example {
    /// Returns the example as part of a complete policy.
    pub fn in_context(&self) -> String {
        let text = self.text.replace('…', "");
        let table = |inside: &str| format!("table inet filter {{\n{inside}\n}}\n");
        let chain = |inside: &str| table(&format!("chain it {{\n{inside}\n}}"));
        let rule = |rule: &str| {
            let chains = "chain ssh {\n}\nchain web {\n}\n";
            let head = "type filter hook input priority 0;";
            table(&format!("{chains}chain it {{\n{head}\n{rule}\n}}"))
        };
        let set = |inside: &str| table(&format!("set it {{\n{inside}\n}}"));
        match self.production.as_str() {
            "file" | "define" | "include" | "flush" | "table" | "family" => text + "\n",
            "add" => format!("{}{text}\n", add_needs(&text)),
            "table-item" | "chain" | "map" => table(&text),
            // Two productions have this name.
            "set" if text.starts_with("set") => table(&text),
            "chain-head" | "hook" | "word" => chain(&text),
            "priority" => chain(&format!("type filter hook input priority {text};")),
            "set-item" if text.starts_with("type") => set(&text),
            "set-item" if text.starts_with("elements") => {
                set(&format!("type ipv4_addr\nflags interval\n{text}"))
            }
            "set-item" | "flag" => set(&format!("type ipv4_addr\n{text}")),
            "map-item" => table(&format!("map it {{\n{text}\n}}")),
            "key" => rule(&format!("{text} {{ 192.0.2.1 . 22 }}")),
            "element" | "component" => rule(&format!("ip saddr . tcp dport vmap {{ {text} }}")),
            _ => rule(&text),
        }
    }
}

/// Returns the declarations (table, chain or set) that must precede an example's `add`; "" if it needs none.
fn add_needs(text: &str) -> &'static str {
    let kind = text.split(' ').nth(1).unwrap_or_default();
    match kind {
        "chain" | "set" | "map" => "table inet filter\n",
        "rule" => "table inet filter {\nchain input {\n}\n}\n",
        "element" => "table inet filter {\nset admins {\ntype ipv4_addr\n}\n}\n",
        _ => "",
    }
}
