// SPDX-License-Identifier: GPL-2.0-or-later
//! Adds up equal loads that run at the same time.

use crate::runner::Outcome;

/// Returns the combined outcome of several equal loads that ran at the same time. Metrics and series are added, the
/// percentage of loss is computed from the sums, and percentiles are omitted.
pub fn add_up(outcomes: Vec<Outcome>) -> Outcome {
    let mut sum = Outcome::default();
    for (flow, outcome) in outcomes.into_iter().enumerate() {
        for metric in outcome.metrics {
            match sum
                .metrics
                .iter_mut()
                .find(|there| there.name == metric.name)
            {
                Some(there) => there.value += metric.value,
                None => sum.metrics.push(metric),
            }
        }
        for (place, point) in outcome.series.into_iter().enumerate() {
            match sum.series.get_mut(place) {
                Some(there) => there.1 += point.1,
                None => sum.series.push(point),
            }
        }
        sum.incidents.extend(outcome.incidents);
        let names = outcome.raw.into_iter();
        sum.raw
            .extend(names.map(|(name, text)| (format!("flow-{flow}-{name}"), text)));
    }
    let value = |name: &str| sum.metrics.iter().find(|m| m.name == name).map(|m| m.value);
    if let (Some(sent), Some(lost)) = (value("sent"), value("lost")) {
        for metric in sum
            .metrics
            .iter_mut()
            .filter(|metric| metric.name == "lost_percent")
        {
            metric.value = if sent > 0.0 { 100.0 * lost / sent } else { 0.0 };
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Metric;

    fn outcome(values: &[(&'static str, f64)], series: &[f64]) -> Outcome {
        let metric = |(name, value): &(&'static str, f64)| Metric {
            name,
            unit: "",
            value: *value,
        };
        Outcome {
            metrics: values.iter().map(metric).collect(),
            series: series
                .iter()
                .enumerate()
                .map(|(i, v)| (i as f64, *v))
                .collect(),
            raw: vec![("x.json".into(), String::new())],
            ..Outcome::default()
        }
    }

    #[test]
    fn flows_add_up() {
        let sum = add_up(vec![
            outcome(
                &[("sent", 100.0), ("lost", 10.0), ("lost_percent", 10.0)],
                &[1.0, 2.0],
            ),
            outcome(
                &[("sent", 300.0), ("lost", 0.0), ("lost_percent", 0.0)],
                &[10.0],
            ),
        ]);
        let values: Vec<f64> = sum.metrics.iter().map(|metric| metric.value).collect();
        assert_eq!(values, [400.0, 10.0, 2.5]);
        assert_eq!(sum.series, [(0.0, 11.0), (1.0, 2.0)]);
        assert_eq!(sum.raw[1].0, "flow-1-x.json");
    }
}
