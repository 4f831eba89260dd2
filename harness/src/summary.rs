// SPDX-License-Identifier: GPL-2.0-or-later
//! Computes summary.csv and pairs.csv from the samples of all rounds.

use std::collections::BTreeMap;

use crate::experiment::Pair;
use crate::finding::{noise_floor, Comparison, LEAST_ROUNDS};
use crate::statistics::{better, median_interval, ratio_interval, Better, Interval};
use crate::store::{CellName, PairRow, Sample, Summary, UNTIMED};
use crate::subject::original;

/// Metrics in which pairs are compared. Losses are excluded: a ratio of zeros is meaningless.
const COMPARED: [&str; 10] = [
    "throughput",
    "delivered_rate",
    "connections",
    "queries",
    "p50",
    "p99",
    "p999",
    "cpu_per_packet",
    "cost",
    "touch",
];

/// Returns the metric that represents a workload in tables and figures.
pub fn main_metric(workload: &str) -> &'static str {
    match workload {
        "tcp-latency" => "p50",
        "tcp-connect" | "tls-connect" | "tcp-probe" => "connections",
        "dns-query" => "queries",
        "udp-flood" => "delivered_rate",
        "tcp-stream" | "hello-stream" | "tls-stream" => "throughput",
        "frames" => "delivered_rate",
        "frames-delayed" | "frames-ring" => "lost_percent",
        "frames-neighbour" => "touch",
        "start" | "request" | "download" | "upload" => "mean",
        // Exchanges: instructions in the virtual machine, CPU time of both ends on this machine. Recorders: CPU time
        // per packet.
        _ => "cost",
    }
}

/// The values of one subject under one load in one metric, by round.
struct Values {
    cell: CellName,
    subject: String,
    metric: String,
    unit: String,
    rounds: BTreeMap<u32, f64>,
}

impl Values {
    fn numbers(&self) -> Vec<f64> {
        self.rounds.values().copied().collect()
    }

    /// Returns (value of self, value of other) for each round that has both.
    fn paired(&self, other: &Values) -> Vec<(f64, f64)> {
        let both = |(round, a): (&u32, &f64)| Some((*a, *other.rounds.get(round)?));
        self.rounds.iter().filter_map(both).collect()
    }
}

/// Samples by load, subject and metric, in the order of the first sample of each group.
struct Groups(Vec<Values>);

impl Groups {
    fn of(samples: &[Sample]) -> Groups {
        let mut groups: Vec<Values> = Vec::new();
        for sample in samples {
            let cell = sample.cell();
            let same = |group: &&mut Values| {
                group.cell == cell
                    && group.subject == sample.subject
                    && group.metric == sample.metric
            };
            let group = match groups.iter_mut().find(same) {
                Some(group) => group,
                None => {
                    groups.push(Values {
                        cell,
                        subject: sample.subject.clone(),
                        metric: sample.metric.clone(),
                        unit: sample.unit.clone(),
                        rounds: BTreeMap::new(),
                    });
                    groups.last_mut().expect("it was just pushed")
                }
            };
            group.rounds.insert(sample.round, sample.value);
        }
        Groups(groups)
    }

    fn find(&self, cell: &CellName, subject: &str, metric: &str) -> Option<&Values> {
        self.0.iter().find(|values| {
            values.cell == *cell && values.subject == subject && values.metric == metric
        })
    }

    /// Returns the ratio interval of the copies with the largest noise floor. None without copies that have
    /// LEAST_ROUNDS rounds in common with their originals.
    fn noise(&self, cell: &CellName, metric: &str, copies: &[Pair]) -> Option<Interval> {
        let ratios = copies.iter().filter_map(|pair| {
            let (a, b) = (
                self.find(cell, &pair.a, metric)?,
                self.find(cell, &pair.b, metric)?,
            );
            let paired = a.paired(b);
            ratio_interval(&paired).filter(|_| paired.len() >= LEAST_ROUNDS)
        });
        ratios.max_by(|x, y| noise_floor(*x).total_cmp(&noise_floor(*y)))
    }

    fn cells(&self) -> Vec<CellName> {
        let mut cells: Vec<CellName> = Vec::new();
        for values in &self.0 {
            if !cells.contains(&values.cell) {
                cells.push(values.cell.clone());
            }
        }
        cells
    }
}

/// Returns median and interval of each metric of a subject under a load. Returns the ratio to the baseline, too, if one
/// direction of the metric is better.
pub fn summarize(samples: &[Sample], baseline: &str) -> Vec<Summary> {
    let groups = Groups::of(samples);
    let summary = |values: &Values| {
        let median = median_interval(&values.numbers());
        let reference = match better(&values.metric) {
            Better::Neither => None,
            _ => groups.find(&values.cell, baseline, &values.metric),
        };
        let ratio = reference.and_then(|reference| ratio_interval(&values.paired(reference)));
        Summary {
            subject: values.subject.clone(),
            workload: values.cell.workload.clone(),
            path: values.cell.path.clone(),
            payload_bytes: values.cell.payload_bytes,
            policy: values.cell.policy,
            metric: values.metric.clone(),
            unit: values.unit.clone(),
            rounds: values
                .rounds
                .keys()
                .filter(|round| **round != UNTIMED)
                .count(),
            median: median.estimate,
            low: median.low,
            high: median.high,
            ratio: ratio.map(|r| r.estimate),
            ratio_low: ratio.map(|r| r.low),
            ratio_high: ratio.map(|r| r.high),
        }
    };
    groups.0.iter().map(summary).collect()
}

/// Compares every requested pair, and every copy with its original, under every load in every compared metric.
pub fn compare(samples: &[Sample], asked: &[Pair], subjects: &[String]) -> Vec<PairRow> {
    let timed: Vec<Sample> = samples
        .iter()
        .filter(|sample| sample.round != UNTIMED)
        .cloned()
        .collect();
    let groups = Groups::of(&timed);
    let copies = copies(subjects);
    let mut rows = Vec::new();
    for cell in groups.cells() {
        for metric in COMPARED {
            let noise = groups.noise(&cell, metric, &copies);
            for pair in asked.iter().chain(&copies) {
                let found = |subject| groups.find(&cell, subject, metric);
                if let (Some(a), Some(b)) = (found(&pair.a), found(&pair.b)) {
                    let noise = noise.filter(|_| !copies.contains(pair));
                    rows.push(pair_row(a, b, noise, copies.contains(pair)));
                }
            }
        }
    }
    rows
}

fn copies(subjects: &[String]) -> Vec<Pair> {
    let pair = |name: &String| {
        Some(Pair {
            a: name.clone(),
            b: original(name)?.into(),
        })
    };
    subjects.iter().filter_map(pair).collect()
}

fn pair_row(a: &Values, b: &Values, noise: Option<Interval>, same: bool) -> PairRow {
    let paired = a.paired(b);
    let ratio = ratio_interval(&paired);
    let comparison = Comparison {
        a: &a.subject,
        b: &b.subject,
        metric: &a.metric,
        rounds: paired.len(),
        ratio,
        noise: if same { ratio } else { noise },
    };
    let finding = match comparison.noise_floor() {
        Some(floor) if same && paired.len() >= LEAST_ROUNDS => {
            format!(
                "two copies of the same: noise floor ±{:.1} %",
                100.0 * floor
            )
        }
        _ => comparison.finding(),
    };
    PairRow {
        workload: a.cell.workload.clone(),
        path: a.cell.path.clone(),
        payload_bytes: a.cell.payload_bytes,
        policy: a.cell.policy,
        metric: a.metric.clone(),
        a: a.subject.clone(),
        b: b.subject.clone(),
        ratio: ratio.map(|r| r.estimate),
        low: ratio.map(|r| r.low),
        high: ratio.map(|r| r.high),
        noise_low: noise.map(|n| n.low),
        noise_high: noise.map(|n| n.high),
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: u32, subject: &str, metric: &str, value: f64) -> Sample {
        Sample {
            round,
            position: 1,
            subject: subject.into(),
            workload: "tcp-stream".into(),
            path: "loopback".into(),
            payload_bytes: 65536,
            policy: None,
            metric: metric.into(),
            unit: "Gbit/s".into(),
            value,
        }
    }

    /// Builds rounds of fluctuating speed in which b is 20 % slower than a, and a copy of a is as fast as a.
    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (round, speed) in (1..).zip([10.0, 12.0, 8.0, 11.0, 10.0, 12.0, 8.0, 11.0]) {
            samples.push(sample(round, "none", "throughput", speed));
            samples.push(sample(round, "rust-raw-fast", "throughput", speed * 0.9));
            samples.push(sample(round, "rust-raw-fast#2", "throughput", speed * 0.91));
            samples.push(sample(round, "c-raw-fast", "throughput", speed * 0.72));
            samples.push(sample(round, "c-raw-fast", "cpu_per_packet", 1.5));
        }
        samples
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_summary_has_the_ratio_of_paired_rounds() {
        let rows = summarize(&samples(), "none");
        let row = rows
            .iter()
            .find(|row| row.subject == "rust-raw-fast")
            .unwrap();
        assert_eq!(row.rounds, 8);
        assert!(near(row.median, 10.5 * 0.9) && row.low < row.median && row.median < row.high);
        assert!(near(row.ratio.unwrap(), 0.9) && near(row.ratio_low.unwrap(), 0.9));
        let cpu = rows
            .iter()
            .find(|row| row.metric == "cpu_per_packet")
            .unwrap();
        assert_eq!((cpu.median, cpu.ratio), (1.5, None));
    }

    #[test]
    fn pairs_know_the_noise() {
        let asked = [Pair {
            a: "c-raw-fast".into(),
            b: "rust-raw-fast".into(),
        }];
        let names = ["none", "rust-raw-fast", "c-raw-fast", "rust-raw-fast#2"].map(String::from);
        let rows = compare(&samples(), &asked, &names);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[0].finding,
            "c-raw-fast is 20.0 % slower (20.0 to 20.0)"
        );
        assert!(near(rows[0].noise_high.unwrap(), 0.91 / 0.9));
        assert_eq!(
            (rows[1].a.as_str(), rows[1].noise_low),
            ("rust-raw-fast#2", None)
        );
        assert_eq!(
            rows[1].finding,
            "two copies of the same: noise floor ±1.1 %"
        );
    }

    #[test]
    fn the_noise_is_that_of_the_copies_that_are_furthest_apart() {
        let mut samples = Vec::new();
        for round in 1..=8 {
            // The copies of accept have the wider interval; those of none are always 8 % apart.
            for (subject, value) in [
                ("accept", 1.0),
                ("accept#2", 1.0 + 0.01 * f64::from(round % 4)),
                ("none", 1.0),
                ("none#2", 1.08),
                ("c-raw-fast", 1.05),
            ] {
                samples.push(sample(round, subject, "throughput", value));
            }
        }
        let asked = [Pair {
            a: "c-raw-fast".into(),
            b: "none".into(),
        }];
        let names = ["accept#2", "none#2"].map(String::from);
        let rows = compare(&samples, &asked, &names);
        assert_eq!(
            rows[0].finding,
            "no difference (within +5.0 to +5.0 %; noise floor ±8.0 %)"
        );
    }

    #[test]
    fn copies_with_few_common_rounds_give_no_noise_floor() {
        let mut samples = samples();
        samples.retain(|s| !(s.round > 5 && s.subject == "rust-raw-fast#2"));
        let asked = [Pair {
            a: "c-raw-fast".into(),
            b: "rust-raw-fast".into(),
        }];
        let rows = compare(&samples, &asked, &["rust-raw-fast#2".into()]);
        assert_eq!(rows[0].noise_high, None);
        assert_eq!(
            rows[0].finding,
            "c-raw-fast is 20.0 % slower (20.0 to 20.0); there is no A/A pair to tell the noise"
        );
        assert!(rows[1]
            .finding
            .starts_with("no finding on 5 of at least 6 rounds"));
    }

    #[test]
    fn a_round_that_one_of_them_lacks_is_left_out() {
        let mut samples = samples();
        samples.retain(|s| !(s.round == 1 && s.subject == "c-raw-fast"));
        samples.retain(|s| !([2, 3].contains(&s.round) && s.subject == "rust-raw-fast"));
        let asked = [Pair {
            a: "c-raw-fast".into(),
            b: "rust-raw-fast".into(),
        }];
        let rows = compare(&samples, &asked, &[]);
        assert!(rows[0]
            .finding
            .starts_with("no finding on 5 of at least 6 rounds"));
    }

    #[test]
    fn counted_calls_are_no_round() {
        let rows = summarize(
            &[sample(UNTIMED, "c-raw-fast", "syscalls_per_packet", 0.25)],
            "none",
        );
        assert_eq!((rows[0].rounds, rows[0].median), (0, 0.25));
    }
}
