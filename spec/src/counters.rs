// SPDX-License-Identifier: GPL-2.0-or-later
//! counters.toml: the counters of a queue's worker, and the metrics that show them.

use std::path::Path;

use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};

use crate::metrics::{Metric, MetricType};
use crate::tables::{check_unique, parse, Status};

/// Contents of counters.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counters {
    counter: Vec<Counter>,
}

/// A counter, or a list of counters.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub name: String,
    pub help: String,
    /// Names of a list's counters; empty if this is one counter.
    #[serde(default)]
    pub values: Vec<String>,
    /// True if the values are the names of statuses.toml.
    #[serde(default)]
    statuses: bool,
    #[serde(default)]
    handover: String,
    #[serde(default)]
    text: Text,
    #[serde(default)]
    label: String,
    #[serde(default)]
    metric: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    of: String,
}

/// Line of the ledger's text that lists a counter: that of a queue, or of the policy. None means that the text shows
/// the counter elsewhere, or not at all.
#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Text {
    #[default]
    None,
    Queue,
    Policy,
}

/// Single counter: a word in the memory of the counters.
#[derive(Serialize)]
pub struct Word {
    /// Key of the counter, or of its list, in the ledger as JSON.
    pub key: String,
    /// Name of the counter in the JSON object of the key; "" if the key has only this counter.
    pub value: String,
    /// Name in the state that an upgrade hands over.
    pub handover: String,
    pub text: Text,
    /// True if the ledger shows the counter; false for a status whose packets are not malformed.
    pub shown: bool,
}

/// Data of counters.toml for the templates.
pub struct Read {
    pub counters: Vec<Counter>,
    pub words: Vec<Word>,
    pub metrics: Vec<Metric>,
}

/// Returns the single counters (words) of a counter, or of a list of counters: one word for each value of the list.
/// - statuses: all statuses of packets. The ledger shows only the words of malformed packets' statuses.
fn words(counter: &Counter, statuses: &[Status]) -> Vec<Word> {
    if counter.values.is_empty() {
        let (key, value) = match counter.of.as_str() {
            "" => (&counter.name, String::new()),
            list => (&list.to_owned(), counter.name.clone()),
        };
        return vec![Word {
            key: key.clone(),
            value,
            handover: counter.name.clone(),
            text: counter.text,
            shown: true,
        }];
    }
    let prefix = match counter.handover.as_str() {
        "" => &counter.name,
        prefix => prefix,
    };
    let is_hidden = |value: &String| {
        let mut hidden = statuses.iter().filter(|status| !status.malformed);
        counter.statuses && hidden.any(|status| status.name == *value)
    };
    let word = |value: &String| Word {
        key: counter.name.clone(),
        value: value.clone(),
        handover: format!("{prefix}-{}", value.replace('_', "-")),
        text: Text::None,
        shown: !is_hidden(value),
    };
    counter.values.iter().map(word).collect()
}

/// Returns the metric of a counter, if it has one.
/// - words: words of all counters.
fn metric(counter: &Counter, words: &[Word]) -> Option<Metric> {
    let mut shown = words
        .iter()
        .filter(|word| word.shown && word.key == counter.name);
    let values = match counter.values.is_empty() {
        true => Vec::new(),
        false => shown.by_ref().map(|word| word.value.clone()).collect(),
    };
    let mut labels = vec!["queue".to_owned()];
    labels.extend((!counter.label.is_empty()).then(|| counter.label.clone()));
    (!counter.metric.is_empty()).then(|| Metric {
        name: counter.metric.clone(),
        unit: counter.unit.clone(),
        r#type: MetricType::Counter,
        help: counter.help.clone(),
        labels,
        values,
        from: format!("stats.queues.{}", counter.name),
        ..Metric::default()
    })
}

/// Parses and checks counters.toml.
pub fn read(folder: &Path, statuses: &[Status]) -> anyhow::Result<Read> {
    let mut counters = parse::<Counters>(folder, "counters.toml")?.counter;
    check_unique(
        "counters.toml",
        counters.iter().map(|counter| &counter.name),
    )?;
    for place in 0..counters.len() {
        let (before, rest) = counters.split_at_mut(place);
        let counter = rest.first_mut().context("a counter")?;
        let name = &counter.name;
        if counter.statuses {
            counter.values = statuses.iter().map(|status| status.name.clone()).collect();
        }
        ensure!(
            counter.values.is_empty() == counter.label.is_empty(),
            "spec/counters.toml: {name}: a list has a label, and nothing else has one"
        );
        let list = before.last().filter(|list| !list.values.is_empty());
        ensure!(
            counter.of.is_empty() || list.is_some_and(|list| list.name == counter.of),
            "spec/counters.toml: {name}: of names the list before it"
        );
        ensure!(
            counter.metric.is_empty() != counter.of.is_empty(),
            "spec/counters.toml: {name}: a counter has a metric, or is of a list that has one"
        );
    }
    let words: Vec<Word> = counters
        .iter()
        .flat_map(|counter| words(counter, statuses))
        .collect();
    let metrics = counters
        .iter()
        .filter_map(|counter| metric(counter, &words));
    Ok(Read {
        metrics: metrics.collect(),
        words,
        counters,
    })
}
