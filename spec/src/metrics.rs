// SPDX-License-Identifier: GPL-2.0-or-later
//! metrics.toml: the metrics, their labels, and the process-wide counts.

use std::path::Path;

use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};

use crate::tables::{check_unique, parse};

/// Contents of metrics.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    #[serde(rename = "label")]
    pub labels: Vec<Label>,
    #[serde(rename = "metric")]
    pub metrics: Vec<Metric>,
    #[serde(rename = "count")]
    pub counts: Vec<Count>,
}

/// A label of metrics.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    pub name: String,
    /// Metrics with this label; empty means all metrics that list the label.
    #[serde(default)]
    pub metrics: Vec<String>,
    pub about: String,
    /// Names of the metrics with this label, as served; empty unless the label lists its metrics in `metrics`.
    #[serde(skip_deserializing)]
    pub of: Vec<String>,
    /// Possible values of the label, for the documentation. Empty unless the label is the last label of a metric:
    /// metrics.toml lists the values of a metric's last label only.
    #[serde(skip_deserializing)]
    pub values: Vec<String>,
}

/// A metric that the exporter serves, other than the counts of the whole process (`Count`).
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    #[serde(default)]
    pub unit: String,
    /// Name of the metric without its unit.
    #[serde(skip_deserializing)]
    pub stem: String,
    /// Name of the metric as the exporter serves it.
    #[serde(skip_deserializing)]
    pub sample: String,
    pub r#type: MetricType,
    pub help: String,
    #[serde(default)]
    pub labels: Vec<String>,
    /// Values of the metric's last label.
    #[serde(default)]
    pub values: Vec<String>,
    /// Path of the metric's value in the answers of the control socket; "" if the exporter computes the value
    /// otherwise.
    #[serde(default)]
    pub from: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricType {
    #[default]
    Counter,
    Gauge,
    Info,
}

/// A count of the whole process, not of a queue.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub name: String,
    pub help: String,
    /// True if the exporter counts it, not the firewall.
    #[serde(default)]
    pub exporter: bool,
}

/// Derives `stem` and `sample` from a metric's name. Fails if the name does not end with the metric's unit.
fn complete(metric: &mut Metric) -> anyhow::Result<()> {
    let name = &metric.name;
    let stem = match metric.unit.as_str() {
        "" => Some(name.as_str()),
        unit => name.strip_suffix(&format!("_{unit}")),
    };
    let unit = &metric.unit;
    let stem = stem
        .with_context(|| format!("spec/metrics.toml: {name} doesn't end with its unit, {unit}"))?;
    let suffix = match metric.r#type {
        MetricType::Counter => "_total",
        MetricType::Gauge => "",
        MetricType::Info => "_info",
    };
    metric.sample = format!("twinwall_{name}{suffix}");
    metric.stem = stem.to_owned();
    Ok(())
}

/// Completes labels from the metrics that have them. Fails unless each label of a metric has exactly one description, and
/// each label has a metric.
fn describe(labels: &mut [Label], metrics: &[Metric]) -> anyhow::Result<()> {
    let mut is_used = vec![false; labels.len()];
    for metric in metrics {
        for name in &metric.labels {
            let is_its = |label: &Label| {
                label.name == *name
                    && (label.metrics.is_empty() || label.metrics.contains(&metric.name))
            };
            let described = labels.iter().filter(|label| is_its(label)).count();
            ensure!(
                described == 1,
                "spec/metrics.toml: {}: its label {name} is described {described} times",
                metric.name
            );
            let index = labels.iter().position(is_its).unwrap_or_default();
            is_used[index] = true;
            let label = &mut labels[index];
            if !label.metrics.is_empty() {
                label.of.push(metric.sample.clone());
            }
            if metric.labels.last() == Some(name) {
                label.values.clone_from(&metric.values);
            }
        }
    }
    match is_used.iter().position(|used| !used) {
        Some(unused) => anyhow::bail!(
            "spec/metrics.toml: no metric has the label {}",
            labels[unused].name
        ),
        None => Ok(()),
    }
}

/// Parses and checks metrics.toml.
/// - counters: metrics of counters.toml, which come last.
pub fn read(folder: &Path, counters: Vec<Metric>) -> anyhow::Result<Metrics> {
    let mut table: Metrics = parse(folder, "metrics.toml")?;
    table.metrics.extend(counters);
    table.metrics.iter_mut().try_for_each(complete)?;
    describe(&mut table.labels, &table.metrics)?;
    let metrics = table.metrics.iter().map(|metric| &metric.name);
    let counts = table.counts.iter().map(|count| &count.name);
    check_unique("metrics.toml", metrics.chain(counts))?;
    Ok(table)
}
