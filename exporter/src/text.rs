// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of the metrics, in the format OpenMetrics 1.0. Has no side effects. The bytes are the same for both twins,
//! except for the label `twin`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::control::{Answers, Rule, Statement};
use crate::family::{Count, Family, COUNTS, FAMILIES};

const PREFIX: &str = "twinwall";

/// Data from which the text of the metrics is made.
struct Figures {
    answers: Answers,
    /// Counts of the exporter, in the order of `COUNTS`.
    own: Vec<u64>,
    resident_bytes: Option<u64>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Figures")
    }
}

type Encoder<'a> = DescriptorEncoder<'a>;

fn put_family<'a>(
    encoder: &'a mut Encoder,
    family: &'a Family,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    let unit = family.unit.as_ref();
    encoder.encode_descriptor(family.name, family.help, unit, family.kind)
}

fn put_value(metric: &mut MetricEncoder, kind: MetricType, value: u64) -> fmt::Result {
    match kind {
        MetricType::Counter => metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => metric.encode_gauge(&value),
    }
}

/// Writes a sample.
/// - values: values of the family's labels, in the order of `family.labels`.
fn put_sample(
    metric: &mut MetricEncoder,
    family: &Family,
    values: &[&str],
    value: u64,
) -> fmt::Result {
    let labels = family.labels.iter().copied();
    let labels: Vec<_> = labels.zip(values.iter().copied()).collect();
    put_value(&mut metric.encode_family(&labels)?, family.kind, value)
}

/// Writes a family with one sample without labels; writes nothing if there is no value.
fn put_single(encoder: &mut Encoder, family: &Family, value: Option<u64>) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    put_value(&mut put_family(encoder, family)?, family.kind, value)
}

/// Returns the number at a place such as "policy.loaded_ms"; None if it is null or missing. true counts as 1. If the
/// place ends with "_ms", the number is converted to seconds.
fn number(object: &Value, place: &str) -> Option<u64> {
    let value = object.pointer(&format!("/{}", place.replace('.', "/")))?;
    let number = value.as_bool().map(u64::from).or_else(|| value.as_u64())?;
    Some(match place.ends_with("_ms") {
        true => number / 1000,
        false => number,
    })
}

/// Writes a family with samples of each queue.
/// - place: place of the value in the queue's object.
fn put_queues(encoder: &mut Encoder, family: &Family, answer: &Value, place: &str) -> fmt::Result {
    let mut metric = put_family(encoder, family)?;
    for queue in answer["queues"].as_array().into_iter().flatten() {
        let name = number(queue, "queue").unwrap_or_default().to_string();
        if family.values.is_empty() {
            if let Some(value) = number(queue, place) {
                put_sample(&mut metric, family, &[&name], value)?;
            }
        }
        for member in family.values {
            if let Some(value) = number(queue, &format!("{place}.{member}")) {
                put_sample(&mut metric, family, &[&name, member], value)?;
            }
        }
    }
    Ok(())
}

/// Writes a family whose values are copied from the answers.
fn put_answered(encoder: &mut Encoder, family: &Family, answers: &Answers) -> fmt::Result {
    let (answer, place) = match family.from.split_once('.') {
        Some(("stats", place)) => (&answers.stats, place),
        Some((_, place)) => (&answers.status, place),
        None => return Ok(()),
    };
    match place.strip_prefix("queues.") {
        Some(place) => put_queues(encoder, family, answer, place),
        None => put_single(encoder, family, number(answer, place)),
    }
}

/// Writes a family with a sample for each chosen statement of each rule. Labels are the rule's position in its chain
/// (from 1) and its line in the policy's text, among others. The position identifies the rule, since several rules may
/// be on one line.
/// - statements: returns a rule's counters, or its log statements.
fn put_rules(
    encoder: &mut Encoder,
    family: &Family,
    rules: &[Rule],
    statements: fn(&Rule) -> &[Statement],
    value: fn(&Statement) -> u64,
) -> fmt::Result {
    let mut metric = put_family(encoder, family)?;
    for chain in rules.chunk_by(|one, next| (&one.chain, &one.table) == (&next.chain, &next.table))
    {
        for (position, rule) in (1..).zip(chain) {
            let position: u64 = position;
            for statement in statements(rule) {
                let values = [
                    rule.table.as_str(),
                    &rule.chain,
                    &position.to_string(),
                    &rule.rule,
                    &statement.statement.to_string(),
                    rule.comment.as_deref().unwrap_or_default(),
                ];
                put_sample(&mut metric, family, &values, value(statement))?;
            }
        }
    }
    Ok(())
}

fn put_build(encoder: &mut Encoder, family: &Family, status: &Value) -> fmt::Result {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let twin = text("program").trim_end_matches("-firewall");
    let labels = family.labels.iter().copied();
    let labels: Vec<_> = labels.zip([twin, text("version")]).collect();
    put_family(encoder, family)?.encode_info(&labels)
}

impl Figures {
    /// Writes a family whose values are computed here (its `from` is "").
    fn put_made(&self, encoder: &mut Encoder, family: &Family) -> fmt::Result {
        let Answers { status, rules, .. } = &self.answers;
        let has_policy = !status["policy"].is_null();
        let rules = |encoder: &mut Encoder, statements, value| match has_policy {
            true => put_rules(encoder, family, &rules.rules, statements, value),
            false => Ok(()),
        };
        match (family.name, &family.unit) {
            ("build", _) => put_build(encoder, family, status),
            ("resident_memory", _) => put_single(encoder, family, self.resident_bytes),
            ("policy_reload_failed", _) => {
                let failed = u64::from(!status["reload_error"].is_null());
                put_single(encoder, family, has_policy.then_some(failed))
            }
            ("rule_packets", _) => rules(encoder, |rule| &rule.counters, |one| one.packets),
            ("rule", Some(_)) => rules(encoder, |rule| &rule.counters, |one| one.bytes),
            ("rule_logged_packets", _) => rules(encoder, |rule| &rule.logs, |one| one.packets),
            _ => Ok(()),
        }
    }

    fn put_counts(&self, encoder: &mut Encoder) -> fmt::Result {
        let mut own = self.own.iter();
        for Count {
            name,
            help,
            exporter,
        } in &COUNTS
        {
            let value = match exporter {
                true => own.next().copied(),
                false => number(&self.answers.status, &format!("counts.{name}")),
            };
            if let Some(value) = value {
                let mut metric =
                    encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                put_value(&mut metric, MetricType::Counter, value)?;
            }
        }
        Ok(())
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in &FAMILIES {
            match family.from {
                "" => self.put_made(&mut encoder, family)?,
                _ => put_answered(&mut encoder, family, &self.answers)?,
            }
        }
        self.put_counts(&mut encoder)
    }
}

/// Returns the text of the metrics.
/// - own: counts of the exporter, in the order of `COUNTS`.
/// - resident_bytes: memory of the firewall; None if it is unknown.
pub fn text(answers: Answers, own: Vec<u64>, resident_bytes: Option<u64>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Figures {
        answers,
        own,
        resident_bytes,
    }));
    let mut text = String::new();
    // It can't fail: writing to a string always succeeds.
    let _ = encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;

    /// Reads a test vector, with its placeholders replaced by the values of the Rust twin.
    fn vector(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/corpus/vectors/");
        let text = std::fs::read_to_string(format!("{folder}{name}")).expect("a vector");
        let text = text.replace("PROGRAM", "rust-firewall");
        text.replace("VERSION", "0.1.0").replace("TWIN", "rust")
    }

    /// Reads an answer of both twins from the test vectors, by its name.
    fn answer<T: serde::de::DeserializeOwned>(name: &str) -> T {
        let answers = vector("control-answers.txt");
        let mut lines = answers.lines().filter_map(|line| line.split_once(' '));
        let (_, line) = lines.find(|(known, _)| *known == name).expect("an answer");
        serde_json::from_str(line).expect("JSON")
    }

    fn text_of(status: &str, stats: &str, rules: &str) -> String {
        let answers = Answers {
            status: answer(status),
            stats: answer(stats),
            rules: answer(rules),
        };
        text(answers, vec![101, 111, 121], Some(4096 * 7))
    }

    #[test]
    fn with_a_policy() {
        assert_eq!(text_of("status", "stats", "rules"), vector("metrics.txt"));
    }

    #[test]
    fn without_a_policy() {
        let text = text_of("idle", "idle-stats", "no-rules");
        assert_eq!(text, vector("metrics-idle.txt"));
    }

    #[test]
    fn in_the_older_format() {
        let text = plain::plain(&text_of("status", "stats", "rules"));
        assert_eq!(text, vector("metrics-plain.txt"));
    }

    #[test]
    fn every_metric_has_a_sample() {
        let text = text_of("status", "stats", "rules");
        for family in &FAMILIES {
            let unit = family
                .unit
                .as_ref()
                .map(|unit| format!("_{}", unit.as_str()));
            let name = format!("twinwall_{}{}", family.name, unit.unwrap_or_default());
            let mut samples = text.lines().filter(|line| !line.starts_with('#'));
            assert!(samples.any(|line| line.starts_with(&name)), "{name}");
        }
    }
}
