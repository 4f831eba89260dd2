// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks that docs/grafana.json and docs/alerts.yml use only metrics and labels that both firewalls have, and that
//! docs/OBSERVE.md names all metrics.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::twin::{root, TWINS};

use super::http::Place;

/// Name of nft's table with the queue rules. It is no metric, but has the metrics' prefix.
const QUEUE_RULES: &str = "table inet twinwall_queue";

/// Returns the words of a text that have the metrics' prefix.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_name(c))
        .filter(|word| word.starts_with("twinwall_"))
        .map(str::to_owned)
        .collect()
}

/// Appends to `texts` all strings that are values of a key in a JSON value, at any depth.
/// - texts: in/out.
fn texts_of<'a>(value: &'a Value, key: &str, texts: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::String(text) if name == key => texts.push(text),
                    _ => texts_of(value, key, texts),
                }
            }
        }
        Value::Array(array) => array.iter().for_each(|value| texts_of(value, key, texts)),
        _ => {}
    }
}

/// Returns the names of samples in the text format 0.0.4; Prometheus stores the samples of both formats under these
/// names.
fn names_of(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

pub fn known() -> anyhow::Result<()> {
    let dashboard = fs::read_to_string(root().join("docs/grafana.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let (mut queries, mut legends) = (Vec::new(), Vec::new());
    texts_of(&dashboard["panels"], "expr", &mut queries);
    texts_of(&dashboard["annotations"], "expr", &mut queries);
    texts_of(&dashboard["templating"], "query", &mut queries);
    texts_of(&dashboard["panels"], "legendFormat", &mut legends);
    ensure!(queries.len() >= 10, "{} queries", queries.len());
    let alerts = fs::read_to_string(root().join("docs/alerts.yml"))?;
    let asked = metrics_in(&[queries.join("\n"), alerts].concat());
    let page = fs::read_to_string(root().join("docs/OBSERVE.md"))?;
    let documented = metrics_in(&page.replace(QUEUE_RULES, ""));
    for twin in TWINS {
        let place = Place::new()?;
        let served = place.start(twin, &[])?;
        let text = place.text("Accept: text/plain\r\n")?;
        served.firewall.stop()?;
        let names = names_of(&text);
        let unknown: Vec<_> = asked.difference(&names).collect();
        ensure!(unknown.is_empty(), "{} has no {unknown:?}", twin.name());
        let missing: Vec<_> = names.difference(&documented).collect();
        ensure!(missing.is_empty(), "docs/OBSERVE.md has no {missing:?}");
        let gone: Vec<_> = documented.difference(&names).collect();
        ensure!(gone.is_empty(), "docs/OBSERVE.md has {gone:?}");
        for label in legends.iter().flat_map(|legend| legend.split("{{").skip(1)) {
            let label = label.split("}}").next().context("a label")?;
            // Prometheus itself adds the label `instance`.
            ensure!(
                label == "instance" || text.contains(&format!("{label}=\"")),
                "no label {label}"
            );
        }
    }
    Ok(())
}
