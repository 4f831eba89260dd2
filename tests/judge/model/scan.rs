// SPDX-License-Identifier: GPL-2.0-or-later
//! Extracts the values from a handwritten policy by the words before them, without parsing the language. Unknown text is
//! skipped; fewer packets are then built around it.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context;

use super::field::{interface_value, mask, names, Field, Kind, Range, FIELDS, TCP_FLAGS};
use super::style::tokens;
use super::tree::{Group, Hook, HOOKS};

/// Maximum number of a set's elements around which packets are built: the first and last elements of a long set.
const ELEMENTS: usize = 12;
const INCLUDES: u32 = 16;

/// Policy text, with the hooks and the groups of values that were extracted from it.
pub struct Scanned {
    /// The whole text, with its includes.
    pub text: String,
    pub hooks: Vec<Hook>,
    pub groups: Vec<Group>,
}

/// Reads a policy and its includes.
pub fn file(path: &Path) -> anyhow::Result<Scanned> {
    let mut text = String::new();
    read(path, &mut text, 0)?;
    Ok(scan(&text))
}

fn read(path: &Path, text: &mut String, depth: u32) -> anyhow::Result<()> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    for line in String::from_utf8_lossy(&bytes).lines() {
        match line
            .trim()
            .strip_prefix("include ")
            .filter(|_| depth < INCLUDES)
        {
            Some(name) => {
                let folder = path.parent().context("a file has a folder")?;
                read(
                    &folder.join(name.trim().trim_matches(['"', ';'])),
                    text,
                    depth + 1,
                )?;
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    Ok(())
}

/// Splits a text into words and signs without blanks and comments, with `$NAME` replaced.
fn words(text: &str) -> Vec<String> {
    let mut defines: HashMap<String, Vec<String>> = HashMap::new();
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let line: Vec<&str> = tokens(line)
            .into_iter()
            .filter(|token| !token.trim().is_empty() && !token.starts_with('#'))
            .collect();
        let mut expanded: Vec<String> = Vec::new();
        let mut rest = line.iter();
        while let Some(token) = rest.next() {
            match *token {
                "$" => {
                    let name = rest.next().copied().unwrap_or_default();
                    expanded.extend(defines.get(name).cloned().unwrap_or_default());
                }
                _ => expanded.push(token.to_string()),
            }
        }
        match expanded.as_slice() {
            [define, name, equals, value @ ..] if define == "define" && equals == "=" => {
                defines.insert(name.clone(), value.to_vec());
            }
            _ => {
                words.extend(expanded);
                words.push("\n".to_string());
            }
        }
    }
    words
}

/// Returns the field whose name begins at the first of these words, and the number of words in the name. None: no field
/// begins there.
fn field_at(words: &[String]) -> Option<(Field, usize)> {
    let first = words.first()?;
    let two = words.get(1).map(|second| format!("{first} {second}"));
    let three = words.get(..3).map(|three| three.join(" "));
    for facts in &FIELDS {
        let short = facts.text.strip_prefix("meta ").unwrap_or(facts.text);
        let long = format!("meta {short}");
        if two
            .as_ref()
            .is_some_and(|two| *two == facts.text || *two == long)
        {
            return Some((facts.field, 2));
        }
        if three.as_deref() == Some(facts.text) {
            return Some((facts.field, 3));
        }
        let alone = ["iif", "oif", "iifname", "oifname", "mark", "skuid", "skgid"].contains(&short);
        if alone && first == short {
            return Some((facts.field, 1));
        }
    }
    None
}

/// Parses a value of a kind as a range of numbers.
fn value(kind: Kind, text: &str) -> Option<(u128, u128)> {
    let one = |text: &str| -> Option<u128> {
        match kind {
            Kind::Ipv4Addr => Some(u32::from(text.parse::<Ipv4Addr>().ok()?).into()),
            Kind::Ipv6Addr => Some(text.parse::<Ipv6Addr>().ok()?.into()),
            Kind::Boolean => Some(u128::from(text == "exists")),
            Kind::TcpFlag => TCP_FLAGS
                .iter()
                .position(|name| *name == text)
                .map(|bit| 1 << bit),
            _ => names(kind)
                .iter()
                .find(|name| name.0 == text)
                .map(|name| name.1)
                .or_else(|| match text.strip_prefix("0x") {
                    Some(digits) => u128::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }),
        }
    };
    if matches!(kind, Kind::Ifname | Kind::IfaceIndex) {
        let name = text.trim_matches('"');
        let prefix = name.strip_suffix('*');
        let stem = prefix.unwrap_or(name);
        if stem.len() > 15 || !text.starts_with('"') {
            return None;
        }
        let low = interface_value(stem);
        let rest = if prefix.is_some() {
            mask(128 - 8 * stem.len() as u32)
        } else {
            0
        };
        return Some((low, low | rest));
    }
    if let Some((address, length)) = text.split_once('/') {
        let bits = if kind == Kind::Ipv4Addr { 32 } else { 128 };
        let host = mask(
            bits - length
                .parse::<u32>()
                .ok()
                .filter(|length| *length <= bits)?,
        );
        let low = one(address)? & !host;
        return Some((low, low | host));
    }
    if let Some(low) = one(text) {
        return Some((low, low));
    }
    let (low, high) = text.split_once('-')?;
    Some((one(low)?, one(high)?)).filter(|(low, high)| low <= high)
}

/// Returns the values of the elements in the words of a set. Ignores the right sides of a map.
fn elements(words: &[String], key: &[Field]) -> Vec<Group> {
    let mut groups = Vec::new();
    let all: Vec<&[String]> = words.split(|word| word == ",").collect();
    let last = all.len().saturating_sub(ELEMENTS / 2);
    for (index, element) in all.iter().enumerate() {
        if index >= ELEMENTS / 2 && index < last {
            continue;
        }
        let element = element.split(|word| word == ":").next().unwrap_or_default();
        let parts = element.iter().filter(|word| *word != "\n" && *word != ".");
        let ranges = key.iter().zip(parts).filter_map(|(field, text)| {
            let (low, high) = value(field.kind(), text)?;
            Some(Range {
                field: *field,
                low,
                high,
            })
        });
        let group: Group = ranges.collect();
        if !group.is_empty() {
            groups.push(group);
        }
    }
    groups
}

/// Returns the words between a `{`, which must be the first word, and the next `}`, and their number including both
/// braces. None: the first word is no `{`, or there is no `}`.
fn braced(words: &[String]) -> Option<(&[String], usize)> {
    if words.first()? != "{" {
        return None;
    }
    let end = words.iter().position(|word| word == "}")?;
    Some((&words[1..end], end + 1))
}

/// Extracts the hooks and values from a policy's text.
pub fn scan(text: &str) -> Scanned {
    let words = words(text);
    let mut sets: HashMap<&str, &[String]> = HashMap::new();
    let mut hooks = Vec::new();
    for at in 0..words.len() {
        match words[at].as_str() {
            "set" | "map" if words.get(at + 2).is_some_and(|brace| brace == "{") => {
                let start = words[at..]
                    .iter()
                    .take(60)
                    .position(|word| word == "elements");
                let list = start.and_then(|start| braced(words.get(at + start + 2..)?));
                if let Some((list, _)) = list {
                    sets.insert(&words[at + 1], list);
                }
            }
            "hook" => hooks.extend(
                HOOKS
                    .into_iter()
                    .filter(|hook| words.get(at + 1).is_some_and(|word| word == hook.text())),
            ),
            _ => {}
        }
    }
    hooks.sort_unstable();
    hooks.dedup();
    let mut groups = Vec::new();
    for line in rules(&words) {
        groups.extend(rule(line, &sets));
    }
    Scanned {
        text: text.to_string(),
        hooks,
        groups,
    }
}

/// Splits words at line ends and semicolons that are outside the braces of sets: each part may be a rule.
fn rules(words: &[String]) -> Vec<&[String]> {
    let mut rules = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < words.len() {
        let in_set = at > 0
            && !matches!(words[at - 1].as_str(), "\n")
            && field_or_set_before(&words[start..at]);
        match braced(&words[at..]).filter(|_| in_set) {
            Some((_, length)) => at += length,
            None => {
                if matches!(words[at].as_str(), "\n" | ";") {
                    rules.push(&words[start..at]);
                    start = at + 1;
                }
                at += 1;
            }
        }
    }
    rules
}

fn field_or_set_before(words: &[String]) -> bool {
    (0..words.len()).any(|at| field_at(&words[at..]).is_some())
}

/// Returns the groups of one rule: its values, combined with those of one set element at a time.
fn rule(words: &[String], sets: &HashMap<&str, &[String]>) -> Vec<Group> {
    let mut plain = Group::new();
    let mut lists: Vec<Vec<Group>> = Vec::new();
    let mut key: Vec<Field> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if let Some((field, length)) = field_at(&words[at..]) {
            if at == 0 || words[at - 1] != "." {
                key.clear();
            }
            key.push(field);
            at += length;
        } else if let Some((list, length)) = braced(&words[at..]) {
            lists.push(elements(list, &key));
            at += length;
        } else if words[at] == "@" {
            if let Some(list) = words.get(at + 1).and_then(|name| sets.get(name.as_str())) {
                lists.push(elements(list, &key));
            }
            at += 2;
        } else {
            if let [field] = key[..] {
                if let Some((low, high)) = value(field.kind(), &words[at]) {
                    plain.push(Range { field, low, high });
                }
            }
            at += 1;
        }
    }
    let mut groups = vec![plain.clone()];
    for list in lists {
        let before = groups[0].clone();
        for element in list {
            groups.push([before.clone(), element].concat());
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_the_words_of_their_fields() {
        let text = "define web = { 80, 443 }\n\
            table inet filter {\n\tset admins {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.0.0.1, 192.0.2.0/24 }\n\t}\n\
            \tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\
            \t\tip saddr @admins tcp dport $web accept # ssh\n\
            \t\tiifname \"eth*\" ct state established,related accept\n\
            \t\tip saddr . tcp dport { 10.0.0.2 . 8000-8100 } drop\n\t}\n}\n";
        let scanned = scan(text);
        assert_eq!(scanned.hooks, [Hook::Input]);
        let has = |field, low, high| {
            scanned
                .groups
                .iter()
                .flatten()
                .any(|range| *range == Range { field, low, high })
        };
        assert!(has(Field::IpSaddr, 0x0a00_0001, 0x0a00_0001));
        assert!(has(Field::IpSaddr, 0xc000_0200, 0xc000_02ff));
        assert!(has(Field::TcpDport, 80, 80) && has(Field::TcpDport, 443, 443));
        assert!(has(Field::TcpDport, 8000, 8100));
        assert!(has(
            Field::MetaIifname,
            interface_value("eth"),
            interface_value("eth") | mask(104)
        ));
    }
}
