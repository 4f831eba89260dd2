// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the tables and checks that references between entries are valid.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{bail, ensure, Context};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::counters::{self, Counter, Word};
use crate::events::{self, Events};
use crate::fields::{self, Field, Fields, Group, Part, Type};
use crate::letters::{self, Letters};
use crate::metrics::{self, Count, Label, Metric};
use crate::options::{self, CommandLine};

/// All tables, as the templates see them.
#[derive(Serialize)]
pub struct Tables {
    pub types: Vec<Type>,
    pub fields: Vec<Field>,
    pub parts: Vec<Part>,
    pub groups: Vec<Group>,
    pub symbols: Vec<SymbolTable>,
    pub places: Vec<String>,
    pub refused: Vec<Refused>,
    pub statuses: Vec<Status>,
    pub counters: Vec<Counter>,
    pub words: Vec<Word>,
    pub metrics: Vec<Metric>,
    pub labels: Vec<Label>,
    pub counts: Vec<Count>,
    pub line: CommandLine,
    pub exits: Vec<Exit>,
    pub events: Events,
    pub letters: Letters,
}

/// Contents of symbols.toml.
#[derive(Deserialize)]
struct Symbols {
    table: Vec<SymbolTable>,
}

/// A table of named numbers.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SymbolTable {
    pub name: String,
    pub about: String,
    /// Type of the policy language whose values the table names ("inet_proto"); "" if the names belong to no type.
    #[serde(default)]
    pub of: String,
    #[serde(default)]
    pub printed: Printed,
    pub names: Vec<(String, u32)>,
}

/// Names of a table that the canonical print of a policy uses in place of numbers: all, none, or the names of a list.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub enum Printed {
    /// "all" or "none".
    Word(String),
    These(Vec<String>),
}

impl Default for Printed {
    fn default() -> Printed {
        Printed::Word("none".to_owned())
    }
}

/// Contents of refused.toml.
#[derive(Deserialize)]
struct Refusals {
    places: Vec<String>,
    refused: Vec<Refused>,
}

/// Words of nft that are refused at a place in a policy, with a hint.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub at: String,
    pub words: String,
    /// Hint; if the file has none, the fields of the group with the place's name.
    #[serde(default)]
    pub hint: String,
}

/// Contents of statuses.toml.
#[derive(Deserialize)]
struct Statuses {
    status: Vec<Status>,
}

/// Result of parsing a packet's headers.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub name: String,
    pub about: String,
    #[serde(default = "yes")]
    pub malformed: bool,
}

/// Contents of exits.toml.
#[derive(Deserialize)]
struct Exits {
    exit: Vec<Exit>,
}

/// An exit code.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    pub name: String,
    pub code: u8,
    pub about: String,
    /// Advice; "" if there is none.
    #[serde(default)]
    pub cure: String,
}

fn yes() -> bool {
    true
}

/// Parses the TOML file of a table in a folder.
pub fn parse<T: DeserializeOwned>(folder: &Path, name: &str) -> anyhow::Result<T> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| format!("spec/{name}"))
}

fn check_symbols(tables: &[SymbolTable], types: &[Type]) -> anyhow::Result<()> {
    for table in tables {
        ensure!(
            table.of.is_empty() || types.iter().any(|known| known.name == table.of),
            "spec/symbols.toml: {}: there is no type {}",
            table.name,
            table.of
        );
        let has = |name: &String| table.names.iter().any(|(known, _)| known == name);
        match &table.printed {
            Printed::Word(word) => ensure!(
                word == "all" || word == "none",
                "spec/symbols.toml: {}: printed is all, none or a list",
                table.name
            ),
            Printed::These(names) => ensure!(
                names.iter().all(has),
                "spec/symbols.toml: {}: it prints what it doesn't have",
                table.name
            ),
        }
    }
    Ok(())
}

/// Completes missing hints. Checks that all places exist, and that no refused word is a field at its place.
fn check_refused(refusals: &mut Refusals, fields: &Fields) -> anyhow::Result<()> {
    let places = &refusals.places;
    for group in &fields.groups {
        let (name, at) = (&group.name, &group.at);
        ensure!(
            places.contains(at),
            "spec/fields.toml: group {name}: there is no place {at}"
        );
    }
    for refused in &mut refusals.refused {
        let at = &refused.at;
        ensure!(
            places.contains(at),
            "spec/refused.toml: there is no place {at}"
        );
        let mut groups = fields.groups.iter().filter(|group| group.at == *at);
        let is_field = |word: &&str| groups.clone().any(|group| group.has(word));
        if let Some(word) = refused.words.split(' ').find(is_field) {
            bail!("spec/refused.toml: {at}: {word} is a field of spec/fields.toml");
        }
        if refused.hint.is_empty() {
            let group = groups.find(|group| group.name == *at);
            let group = group.with_context(|| format!("spec/refused.toml: {at}: no hint"))?;
            refused.hint = format!("of {at}, {} are", group.words("and"));
        }
    }
    Ok(())
}

fn check_statuses(statuses: &[Status]) -> anyhow::Result<()> {
    ensure!(
        statuses.is_sorted_by_key(|status| status.malformed),
        "spec/statuses.toml: what is not malformed comes first"
    );
    check_unique("statuses.toml", statuses.iter().map(|status| &status.name))
}

/// Fails if a table contains a name twice.
pub fn check_unique<'a>(file: &str, names: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        ensure!(seen.insert(name), "spec/{file}: {name} is there twice");
    }
    Ok(())
}

/// Parses and checks the tables of a folder. Errors name the file and the entry.
pub fn read(folder: &Path) -> anyhow::Result<Tables> {
    let fields = fields::read(folder)?;
    let symbols: Symbols = parse(folder, "symbols.toml")?;
    let mut refusals: Refusals = parse(folder, "refused.toml")?;
    let statuses: Statuses = parse(folder, "statuses.toml")?;
    check_symbols(&symbols.table, &fields.types)?;
    check_statuses(&statuses.status)?;
    let counters = counters::read(folder, &statuses.status)?;
    let metrics = metrics::read(folder, counters.metrics)?;
    let exits: Exits = parse(folder, "exits.toml")?;
    check_unique("exits.toml", exits.exit.iter().map(|exit| &exit.name))?;
    check_refused(&mut refusals, &fields)?;
    Ok(Tables {
        types: fields.types,
        fields: fields.fields,
        parts: fields.parts,
        groups: fields.groups,
        symbols: symbols.table,
        places: refusals.places,
        refused: refusals.refused,
        statuses: statuses.status,
        counters: counters.counters,
        words: counters.words,
        metrics: metrics.metrics,
        labels: metrics.labels,
        counts: metrics.counts,
        line: options::read(folder)?,
        exits: exits.exit,
        events: events::read(folder)?,
        letters: letters::make(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error for the tables with one text replaced.
    fn cause(file: &str, from: &str, to: &str) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = std::env::temp_dir().join(format!("spec-tables-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for entry in fs::read_dir(here).expect("the tables").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "toml") {
                fs::copy(&path, folder.join(entry.file_name())).expect("a copy");
            }
        }
        let text = fs::read_to_string(here.join(file)).expect("a table");
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(folder.join(file), text.replacen(from, to, 1)).expect("a table");
        let error = read(&folder).err();
        fs::remove_dir_all(&folder).expect("it is there");
        error.map_or("nothing".to_owned(), |error| format!("{error:#}"))
    }

    /// A table, a text in it, its replacement, and the expected error.
    const UNSOUND: &[(&str, &str, &str, &str)] = &[
        (
            "fields",
            "part = \"ipv4\"",
            "part = \"x\"",
            "field ip saddr: there is no part x",
        ),
        (
            "fields",
            "type = \"dscp\"",
            "type = \"x\"",
            "field ip dscp: there is no type x",
        ),
        (
            "fields",
            "\"ip saddr\"",
            "\"x saddr\"",
            "field x saddr: there is no group x",
        ),
        (
            "fields",
            "\"ip daddr\"",
            "\"ip saddr\"",
            "ip_saddr is there twice",
        ),
        (
            "fields",
            "at = \"udp\"",
            "at = \"x\"",
            "group th: there is no place x",
        ),
        (
            "fields",
            "[[group]]\nname = \"meta\"\n",
            "",
            "the last group is meta",
        ),
        (
            "fields",
            "family = \"ip\"",
            "alone = true",
            "field ip saddr: only those of meta stand alone",
        ),
        ("symbols", "of = \"", "of = \"x", "there is no type x"),
        (
            "refused",
            "at = \"ip\"",
            "at = \"x\"",
            "there is no place x",
        ),
        (
            "refused",
            "\"version hdrlength",
            "\"version ttl",
            "ip: ttl is a field of",
        ),
        (
            "refused",
            "hint = \"only meta mark can be set\"",
            "",
            "assigned: no hint",
        ),
        (
            "statuses",
            "malformed = false",
            "malformed = true",
            "what is not malformed comes first",
        ),
        (
            "counters",
            "name = \"bytes\"",
            "name = \"received\"",
            "received is there twice",
        ),
        (
            "counters",
            "of = \"malformed\"",
            "of = \"verdicts\"",
            "netlink: of names the list before it",
        ),
        (
            "counters",
            "metric = \"overruns\"\n",
            "",
            "overruns: a counter has a metric",
        ),
        (
            "counters",
            "label = \"verdict\"\n",
            "",
            "verdicts: a list has a label",
        ),
        (
            "metrics",
            "name = \"twin\"",
            "name = \"x\"",
            "build: its label twin is described 0 times",
        ),
        (
            "metrics",
            "metrics = [\"malformed_packets\"]",
            "",
            "its label reason is described 2 times",
        ),
        (
            "metrics",
            "[[metric]]",
            "[[label]]\nname = \"x\"\nabout = \"\"\n[[metric]]",
            "no metric has the label x",
        ),
        (
            "metrics",
            "unit = \"seconds\"",
            "unit = \"bytes\"",
            "doesn't end with its unit, bytes",
        ),
        (
            "metrics",
            "name = \"stalls\"",
            "name = \"reloads\"",
            "reloads is there twice",
        ),
        ("exits", "name = ", "x = 1\nname = ", "unknown field `x`"),
        (
            "events",
            "name = \"stopped\"",
            "name = \"started\"",
            "started is there twice",
        ),
        (
            "events",
            "type = \"number\"",
            "type = \"x\"",
            "line: there is no type x",
        ),
    ];

    #[test]
    fn what_is_unsound_is_told_by_its_name() {
        for (file, from, to, expected) in UNSOUND {
            let cause = cause(&format!("{file}.toml"), from, to);
            assert!(
                cause.contains(&format!("spec/{file}.toml")) && cause.contains(expected),
                "not {expected}: {cause}"
            );
        }
    }
}
