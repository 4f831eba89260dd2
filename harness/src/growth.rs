// SPDX-License-Identifier: GPL-2.0-or-later
//! Growth of results with the size of a policy: groups of loads, and claims about them.

use std::collections::BTreeMap;

use crate::experiment::Claim;
use crate::finding::LEAST_ROUNDS;
use crate::statistics::{ratio_interval, Interval};
use crate::store::{CellName, PairRow, Sample, Summary};
use crate::summary::main_metric;
use crate::synthetic::{SyntheticKind, SyntheticPolicy};
use crate::table::{absent, number, Table};

/// Loads that differ only in the size of their policy, smallest first.
pub struct Growth {
    pub kind: SyntheticKind,
    pub cells: Vec<CellName>,
}

impl Growth {
    /// Splits loads into single loads and growths. A growth consists of several loads that differ only in the size of
    /// their policy.
    pub fn divide(cells: &[CellName]) -> (Vec<CellName>, Vec<Growth>) {
        let mut growths = Growth::of(cells);
        growths.retain(|growth| growth.cells.len() > 1);
        let grows = |cell: &CellName| growths.iter().any(|growth| growth.cells.contains(cell));
        let single = cells.iter().filter(|cell| !grows(cell)).cloned().collect();
        (single, growths)
    }

    /// Groups the loads that have a policy, in the order of their first appearance. The loads of a group, which may be
    /// a single load, differ only in the size of their policy.
    fn of(cells: &[CellName]) -> Vec<Growth> {
        let mut growths: Vec<Growth> = Vec::new();
        for cell in cells {
            let Some(policy) = cell.policy else {
                continue;
            };
            let same = |growth: &&mut Growth| {
                growth.kind == policy.kind
                    && without_policy(&growth.cells[0]) == without_policy(cell)
            };
            match growths.iter_mut().find(same) {
                Some(growth) => growth.cells.push(cell.clone()),
                None => growths.push(Growth {
                    kind: policy.kind,
                    cells: vec![cell.clone()],
                }),
            }
        }
        for growth in &mut growths {
            growth.cells.sort_by_key(|cell| cell.policy);
        }
        growths
    }

    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.cells
            .iter()
            .filter_map(|cell| cell.policy.map(|policy| policy.size))
    }

    /// Returns the name of the loads without their policy, and the unit of the policies' sizes.
    pub fn title(&self) -> String {
        format!("{}, {}", without_policy(&self.cells[0]), self.kind.counts())
    }
}

impl Growth {
    /// Returns one table for each measured metric of three (main metric, loss, CPU time per packet), with one column
    /// per size: the medians of each subject, then the ratios of the pairs with their intervals. The table of loss is
    /// omitted if all its medians are 0.
    pub fn tables(
        &self,
        subjects: &[String],
        summaries: &[Summary],
        pairs: &[PairRow],
    ) -> Vec<Table> {
        let main = main_metric(&self.cells[0].workload);
        let metrics = [main, "lost_percent", "cpu_per_packet"];
        let table = |metric: &&str| self.table(metric, subjects, summaries, pairs);
        metrics.iter().filter_map(table).collect()
    }

    fn table(
        &self,
        metric: &str,
        subjects: &[String],
        summaries: &[Summary],
        pairs: &[PairRow],
    ) -> Option<Table> {
        let of_metric =
            |summary: &&Summary| summary.metric == metric && self.cells.contains(&summary.cell());
        let summaries: Vec<&Summary> = summaries.iter().filter(of_metric).collect();
        let unit = &summaries.first()?.unit;
        if metric == "lost_percent" && summaries.iter().all(|summary| summary.median == 0.0) {
            return None;
        }
        let mut rows = Vec::new();
        for subject in subjects {
            let median = |cell: &CellName| {
                let mut own = summaries.iter().filter(|s| s.subject == *subject);
                let found = own.find(|s| s.cell() == *cell);
                found.map_or(absent(), |summary| number(summary.median))
            };
            rows.push(self.row(subject, median));
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for pair in pairs.iter().filter(|pair| pair.metric == metric) {
            let names = (pair.a.as_str(), pair.b.as_str());
            if self.cells.contains(&pair.cell()) && !seen.contains(&names) {
                seen.push(names);
            }
        }
        for (a, b) in seen {
            let ratio = |cell: &CellName| {
                let mut of_it = pairs
                    .iter()
                    .filter(|p| p.metric == metric && p.a == a && p.b == b);
                let found = of_it.find(|pair| pair.cell() == *cell);
                found.and_then(ratio_text).unwrap_or(absent())
            };
            rows.push(self.row(&format!("{a} / {b}"), ratio));
        }
        rows.retain(|row| row[1..].iter().any(|text| *text != absent()));
        let sizes = self.sizes().map(|size| size.to_string());
        Some(Table {
            title: format!("{}: {metric}, {unit}", self.title()),
            head: ["subject".to_string()].into_iter().chain(sizes).collect(),
            rows,
            copies: Vec::new(),
        })
    }

    fn row(&self, name: &str, value: impl Fn(&CellName) -> String) -> Vec<String> {
        let values = self.cells.iter().map(value);
        [name.to_string()].into_iter().chain(values).collect()
    }
}

/// Returns a ratio with its interval, e.g. `1.02 (0.98 to 1.05)`; None if a value is missing.
fn ratio_text(pair: &PairRow) -> Option<String> {
    let (ratio, low, high) = (pair.ratio?, pair.low?, pair.high?);
    Some(format!("{ratio:.2} ({low:.2} to {high:.2})"))
}

fn without_policy(cell: &CellName) -> CellName {
    CellName {
        policy: None,
        ..cell.clone()
    }
}

/// Returns each claim in words, with the samples' result for that claim.
pub fn claims(samples: &[Sample], claims: &[Claim]) -> Vec<(String, String)> {
    let said = |claim: &Claim| {
        let words = format!(
            "{}, {}: {} at {} is at most {} times that at {}",
            claim.subject,
            claim.policy.name(),
            claim.metric,
            claim.to,
            number(claim.at_most),
            claim.from
        );
        (words, finding(samples, claim))
    };
    claims.iter().map(said).collect()
}

fn finding(samples: &[Sample], claim: &Claim) -> String {
    let (small, large) = (
        rounds(samples, claim, claim.from),
        rounds(samples, claim, claim.to),
    );
    let both = |(round, value): (&u32, &f64)| Some((*value, *small.get(round)?));
    let paired: Vec<(f64, f64)> = large.iter().filter_map(both).collect();
    if paired.len() < LEAST_ROUNDS {
        return format!(
            "no finding on {} of at least {LEAST_ROUNDS} rounds: run more with --rounds",
            paired.len()
        );
    }
    let Some(Interval {
        estimate,
        low,
        high,
    }) = ratio_interval(&paired)
    else {
        return format!("no finding: a value at {} is zero", claim.from);
    };
    let finding = match (high <= claim.at_most, low > claim.at_most) {
        (true, _) => "holds",
        (_, true) => "DOES NOT HOLD",
        _ => "not shown",
    };
    format!("{finding}: {estimate:.2} times ({low:.2} to {high:.2})")
}

/// Returns the values of the claim's metric at a policy size, by round.
fn rounds(samples: &[Sample], claim: &Claim, size: u32) -> BTreeMap<u32, f64> {
    let policy = Some(SyntheticPolicy {
        kind: claim.policy,
        size,
    });
    let of_it = samples.iter().filter(|sample| {
        sample.policy == policy && sample.subject == claim.subject && sample.metric == claim.metric
    });
    of_it.map(|sample| (sample.round, sample.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(workload: &str, policy: Option<&str>) -> CellName {
        CellName {
            workload: workload.into(),
            path: "loopback".into(),
            payload_bytes: 18,
            policy: policy.map(|name| name.parse().unwrap()),
        }
    }

    #[test]
    fn loads_that_differ_in_size_belong_together() {
        let cells = [
            cell("udp-flood", Some("ports-100")),
            cell("udp-flood", Some("addresses-10")),
            cell("udp-flood", None),
            cell("udp-flood", Some("ports-10")),
            cell("tcp-stream", Some("ports-10")),
        ];
        let growths = Growth::of(&cells);
        let sizes: Vec<Vec<u32>> = growths
            .iter()
            .map(|growth| growth.sizes().collect())
            .collect();
        assert_eq!(sizes, [vec![10, 100], vec![10], vec![10]]);
        let (single, growths) = Growth::divide(&cells);
        assert_eq!((single.len(), growths.len()), (cells.len() - 2, 1));
        assert_eq!(
            growths[0].title(),
            "udp-flood over loopback, payload 18 B, rules “udp dport N drop”"
        );
    }

    /// Builds rounds of fluctuating speed in which the larger policy costs `times` as much, and returns the claim's
    /// result.
    fn said(times: f64, rounds: u32) -> String {
        let sample = |round: u32, size: u32, value: f64| Sample {
            round,
            position: 1,
            subject: "c-raw-fast".into(),
            workload: "udp-flood".into(),
            path: "loopback".into(),
            payload_bytes: 18,
            policy: Some(SyntheticPolicy {
                kind: SyntheticKind::Ports,
                size,
            }),
            metric: "cpu_per_packet".into(),
            unit: "us".into(),
            value,
        };
        let speeds = (1..=rounds).map(|round| (round, f64::from(round)));
        let samples: Vec<Sample> = speeds
            .flat_map(|(round, speed)| {
                [
                    sample(round, 10, speed),
                    sample(round, 10_000, speed * times),
                ]
            })
            .collect();
        let claim = Claim {
            subject: "c-raw-fast".into(),
            policy: SyntheticKind::Ports,
            metric: "cpu_per_packet".into(),
            from: 10,
            to: 10_000,
            at_most: 1.5,
        };
        let (asked, words) = claims(&samples, &[claim]).remove(0);
        assert_eq!(
            asked,
            "c-raw-fast, ports: cpu_per_packet at 10000 is at most 1.50 times that at 10"
        );
        words
    }

    #[test]
    fn a_table_has_a_column_for_each_size() {
        let cells = ["ports-10", "ports-100"].map(|name| cell("udp-flood", Some(name)));
        let sample = |round, subject: &str, size: usize, metric: &str, value| Sample {
            round,
            position: 1,
            subject: subject.into(),
            workload: "udp-flood".into(),
            path: "loopback".into(),
            payload_bytes: 18,
            policy: cells[size].policy,
            metric: metric.into(),
            unit: "kpps".into(),
            value,
        };
        let samples: Vec<Sample> = (1..=3)
            .flat_map(|round| {
                [
                    sample(round, "none", 0, "delivered_rate", 300.0),
                    sample(round, "none", 1, "delivered_rate", 200.0),
                    sample(round, "accept", 0, "delivered_rate", 150.0),
                    sample(round, "none", 0, "lost_percent", 0.0),
                ]
            })
            .collect();
        let subjects = ["none", "accept", "c-raw-fast"].map(String::from);
        let pair = crate::experiment::Pair {
            a: "accept".into(),
            b: "none".into(),
        };
        let summaries = crate::summary::summarize(&samples, "none");
        let pairs = crate::summary::compare(&samples, &[pair], &subjects);
        let tables = Growth::of(&cells)[0].tables(&subjects, &summaries, &pairs);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].head, ["subject", "10", "100"]);
        let rows: Vec<String> = tables[0].rows.iter().map(|row| row.join(" | ")).collect();
        assert_eq!(
            rows,
            [
                "none | 300 | 200",
                "accept | 150 | -",
                "accept / none | 0.50 (0.50 to 0.50) | -"
            ]
        );
    }

    #[test]
    fn a_claim_holds_or_not() {
        assert_eq!(said(1.25, 6), "holds: 1.25 times (1.25 to 1.25)");
        assert_eq!(said(1.75, 6), "DOES NOT HOLD: 1.75 times (1.75 to 1.75)");
        assert!(said(1.0, 2).starts_with("no finding on 2 of at least 6 rounds"));
        assert_eq!(
            said(f64::NAN, 0),
            "no finding on 0 of at least 6 rounds: run more with --rounds"
        );
    }
}
