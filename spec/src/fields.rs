// SPDX-License-Identifier: GPL-2.0-or-later
//! fields.toml: the types and fields of the language.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};

use crate::tables::{check_unique, parse};

/// Name of the group that fields with a single word, such as `iif`, belong to.
const OF_ONE_WORD: &str = "meta";

/// Contents of fields.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    #[serde(rename = "type")]
    pub types: Vec<Type>,
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    #[serde(rename = "field")]
    pub fields: Vec<Field>,
}

/// Data type of a field's values, such as `ipv4_addr`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Type {
    pub name: String,
    /// True if the declaration of a set or map may contain this type's name (`type ipv4_addr`).
    #[serde(default)]
    pub nameable: bool,
    #[serde(default)]
    pub about: String,
}

/// Source of fields, e.g. the IPv4 header.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub about: String,
}

/// Fields that begin with the same word or words, as `tcp dport` begins with `tcp`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    #[serde(default)]
    pub at: String,
    /// Words that follow the group's name in the texts of its fields, each once.
    #[serde(skip)]
    fields: Vec<String>,
    /// Words of `fields` as a list for messages: `a, b or c`.
    #[serde(skip_deserializing)]
    expected: String,
}

impl Group {
    /// Returns the words of the group's fields as a list in a sentence.
    /// - before_last: word before the last field, "and" or "or".
    pub fn words(&self, before_last: &str) -> String {
        match self.fields.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} {before_last} {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Returns true if a word is one of the group's fields.
    pub fn has(&self, word: &str) -> bool {
        self.fields.iter().any(|field| field == word)
    }
}

/// A field of the policy language, e.g. `ip saddr`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub text: String,
    pub r#type: String,
    pub bits: u8,
    pub part: String,
    #[serde(default)]
    pub family: Family,
    #[serde(default)]
    pub protocol: Protocol,
    #[serde(default)]
    pub alone: bool,
    /// Name of the field's constant; derived from the text if the table has none.
    #[serde(default)]
    pub name: String,
    /// Last word of the field's text, without its group, e.g. `saddr`.
    #[serde(skip_deserializing)]
    pub word: String,
}

/// Address family of the packets that have a field.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    #[default]
    Any,
    Ip,
    Ip6,
}

/// The protocol that a field belongs to.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Any,
    Tcp,
    Udp,
    Icmp,
    Icmpv6,
}

/// Completes a field, and adds it to its group. Fails if the table has no such group, or if `alone` is set in another
/// group than `meta`.
fn complete(field: &mut Field, groups: &mut [Group]) -> anyhow::Result<()> {
    let text = &field.text;
    let (name, word) = text.rsplit_once(' ').unwrap_or((OF_ONE_WORD, text));
    let group = groups.iter_mut().find(|group| group.name == name);
    let group = group
        .with_context(|| format!("spec/fields.toml: field {text}: there is no group {name}"))?;
    ensure!(
        !field.alone || name == OF_ONE_WORD,
        "spec/fields.toml: field {text}: only those of {OF_ONE_WORD} stand alone"
    );
    if !group.has(word) {
        group.fields.push(word.to_owned());
    }
    field.word = word.to_owned();
    if field.name.is_empty() {
        field.name = text.replace([' ', '-'], "_");
    }
    Ok(())
}

/// Parses and checks fields.toml.
pub fn read(folder: &Path) -> anyhow::Result<Fields> {
    let mut table: Fields = parse(folder, "fields.toml")?;
    ensure!(
        table
            .groups
            .last()
            .is_some_and(|group| group.name == OF_ONE_WORD),
        "spec/fields.toml: the last group is {OF_ONE_WORD}"
    );
    for group in &mut table.groups {
        if group.at.is_empty() {
            group.at.clone_from(&group.name);
        }
    }
    let types: BTreeSet<_> = table.types.iter().map(|known| &known.name).collect();
    let parts: BTreeSet<_> = table.parts.iter().map(|known| &known.name).collect();
    for field in &mut table.fields {
        complete(field, &mut table.groups)?;
        let (text, kind, part) = (&field.text, &field.r#type, &field.part);
        ensure!(
            types.contains(kind),
            "spec/fields.toml: field {text}: there is no type {kind}"
        );
        ensure!(
            parts.contains(part),
            "spec/fields.toml: field {text}: there is no part {part}"
        );
    }
    for group in &mut table.groups {
        group.expected = group.words("or");
    }
    check_unique("fields.toml", table.fields.iter().map(|field| &field.name))?;
    // Each field has a bit in a 64-bit word.
    ensure!(
        table.fields.len() <= 64,
        "spec/fields.toml: more than 64 fields"
    );
    Ok(table)
}
