// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables as data, checked: what one entry says of another must be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// All tables, as the templates see them.
#[derive(Serialize)]
pub struct Tables {
    pub types: Vec<Type>,
    pub fields: Vec<Field>,
    pub parts: Vec<Part>,
    pub symbols: Vec<SymbolTable>,
    pub places: Vec<String>,
    pub refused: Vec<Refused>,
    pub statuses: Vec<Status>,
    pub metrics: Vec<Metric>,
    pub counts: Vec<Count>,
}

/// fields.toml
#[derive(Deserialize)]
struct Fields {
    r#type: Vec<Type>,
    part: Vec<Part>,
    field: Vec<Field>,
}

/// A type of values.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Type {
    pub name: String,
    #[serde(default)]
    pub about: String,
}

/// Where fields are read from.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub about: String,
}

/// A field of the language.
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
    /// The name of its constant; the text if it is not given.
    #[serde(default)]
    pub name: String,
}

/// The packets that have a field.
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

/// symbols.toml
#[derive(Deserialize)]
struct Symbols {
    table: Vec<SymbolTable>,
}

/// Names of numbers.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SymbolTable {
    pub name: String,
    pub about: String,
    /// The type whose values they name; "" where it is none.
    #[serde(default)]
    pub of: String,
    #[serde(default)]
    pub printed: Printed,
    pub names: Vec<(String, u32)>,
}

/// The names that the canonical print uses.
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

/// refused.toml
#[derive(Deserialize)]
struct Refusals {
    places: Vec<String>,
    refused: Vec<Refused>,
}

/// Words that are refused with a hint.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub at: String,
    pub words: String,
    pub hint: String,
}

/// statuses.toml
#[derive(Deserialize)]
struct Statuses {
    status: Vec<Status>,
}

/// What reading a packet's headers comes to.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub name: String,
    pub about: String,
    #[serde(default = "yes")]
    pub malformed: bool,
}

/// metrics.toml
#[derive(Deserialize)]
struct Metrics {
    metric: Vec<Metric>,
    count: Vec<Count>,
}

/// A metric, which is not a count.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    #[serde(default)]
    pub unit: String,
    /// The name without the unit.
    #[serde(skip_deserializing)]
    pub stem: String,
    pub r#type: MetricType,
    pub help: String,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub kernel: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricType {
    Counter,
    Gauge,
    Info,
}

/// What is counted for the whole process.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub name: String,
    pub help: String,
}

fn yes() -> bool {
    true
}

fn parse<T: DeserializeOwned>(folder: &Path, name: &str) -> anyhow::Result<T> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| format!("spec/{name}"))
}

fn check_fields(fields: &mut Fields) -> anyhow::Result<()> {
    let types: BTreeSet<_> = fields
        .r#type
        .iter()
        .map(|known| known.name.as_str())
        .collect();
    let parts: BTreeSet<_> = fields
        .part
        .iter()
        .map(|known| known.name.as_str())
        .collect();
    let mut names = BTreeSet::new();
    for field in &mut fields.field {
        ensure!(
            types.contains(field.r#type.as_str()),
            "spec/fields.toml: field {}: there is no type {}",
            field.text,
            field.r#type
        );
        ensure!(
            parts.contains(field.part.as_str()),
            "spec/fields.toml: field {}: there is no part {}",
            field.text,
            field.part
        );
        if field.name.is_empty() {
            field.name = field.text.replace([' ', '-'], "_");
        }
        ensure!(
            names.insert(field.name.clone()),
            "spec/fields.toml: field {} is there twice",
            field.text
        );
    }
    // Each has a bit in a word.
    ensure!(names.len() <= 64, "spec/fields.toml: more than 64 fields");
    Ok(())
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

fn check_statuses(statuses: &[Status]) -> anyhow::Result<()> {
    ensure!(
        statuses.is_sorted_by_key(|status| status.malformed),
        "spec/statuses.toml: what is not malformed comes first"
    );
    check_unique("statuses.toml", statuses.iter().map(|status| &status.name))
}

fn check_metrics(metrics: &mut Metrics) -> anyhow::Result<()> {
    for metric in &mut metrics.metric {
        let stem = match metric.unit.as_str() {
            "" => Some(metric.name.as_str()),
            unit => metric.name.strip_suffix(&format!("_{unit}")),
        };
        let stem = stem.with_context(|| {
            let (name, unit) = (&metric.name, &metric.unit);
            format!("spec/metrics.toml: {name} doesn't end with its unit, {unit}")
        })?;
        metric.stem = stem.to_owned();
    }
    let metric_names = metrics.metric.iter().map(|metric| &metric.name);
    let count_names = metrics.count.iter().map(|count| &count.name);
    check_unique("metrics.toml", metric_names.chain(count_names))
}

/// Fails where a table has a name twice.
fn check_unique<'a>(file: &str, names: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        ensure!(seen.insert(name), "spec/{file}: {name} is there twice");
    }
    Ok(())
}

/// Reads and checks the tables of a folder. What fails names the file and the entry.
pub fn read(folder: &Path) -> anyhow::Result<Tables> {
    let mut fields: Fields = parse(folder, "fields.toml")?;
    let symbols: Symbols = parse(folder, "symbols.toml")?;
    let refusals: Refusals = parse(folder, "refused.toml")?;
    let statuses: Statuses = parse(folder, "statuses.toml")?;
    check_fields(&mut fields)?;
    check_symbols(&symbols.table, &fields.r#type)?;
    let mut metrics: Metrics = parse(folder, "metrics.toml")?;
    check_metrics(&mut metrics)?;
    check_statuses(&statuses.status)?;
    for refused in &refusals.refused {
        ensure!(
            refusals.places.contains(&refused.at),
            "spec/refused.toml: there is no place {}",
            refused.at
        );
    }
    Ok(Tables {
        types: fields.r#type,
        fields: fields.field,
        parts: fields.part,
        symbols: symbols.table,
        places: refusals.places,
        refused: refusals.refused,
        statuses: statuses.status,
        metrics: metrics.metric,
        counts: metrics.count,
    })
}
