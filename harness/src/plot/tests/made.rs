// SPDX-License-Identifier: GPL-2.0-or-later
//! Artificial result folders.

use std::fs;
use std::path::PathBuf;

use serde_json::{json, Value};

use crate::metadata::Metadata;
use crate::store::{PercentileRow, Round, Sample, SeriesRow, Store};
use crate::summary::summarize;

const ROUNDS: u32 = 3;
/// Made-up throughput in Gbit/s of the subjects `…paper` (published programs), whose stream collapses.
const FALLEN: f64 = 0.0231;

/// A result folder that is deleted on drop.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Content of an artificial result folder: three rounds of tcp-stream, tcp-latency and udp-flood.
pub struct Made<'a> {
    pub subjects: &'a [&'a str],
    pub payload_bytes: &'a [usize],
    pub figures: Value,
    pub references: Value,
}

impl Made<'_> {
    fn metadata(&self) -> Metadata {
        let made = json!({
            "experiment": "test", "title": "A test", "question": "?",
            "source": {"commit": "0123456789abcdef", "dirty": true},
            "machine": {"kernel": "6.1.0", "cpu_model": "A CPU", "cpus": 2, "governor": "unknown"},
            "tools": {}, "commands": [], "config_hash": "", "started": "2026-01-31T00:00:00Z",
            "ended": null, "rounds": ROUNDS, "rounds_done": ROUNDS, "warmup_seconds": 0,
            "seconds": 1, "host": false, "subjects": self.subjects, "baseline": "none",
            "compare": [], "incidents": [], "figures": self.figures,
            "references": self.references,
            "runners": [{"workload": "tcp-stream", "runner": "ethr", "note": null}],
        });
        serde_json::from_value(made).unwrap()
    }

    pub fn write(&self, name: &str) -> Folder {
        let place = format!("twinwall-plot-{}-{name}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(place));
        let store = Store::create(&folder.0).unwrap();
        self.metadata().write(&store).unwrap();
        for round in 1..=ROUNDS {
            store.append(&self.round(round)).unwrap();
        }
        let samples: Vec<Sample> = store.read().unwrap();
        store.rewrite(&summarize(&samples, "none")).unwrap();
        folder
    }

    fn round(&self, round: u32) -> Round {
        let mut rows = Round::default();
        for (position, subject) in self.subjects.iter().enumerate() {
            for payload_bytes in self.payload_bytes {
                let scale = 1.0 + 0.01 * f64::from(round) + 0.03 * position as f64;
                let load = OneLoad {
                    round,
                    subject,
                    payload_bytes: *payload_bytes,
                    scale,
                };
                load.add(&mut rows);
            }
        }
        rows
    }
}

struct OneLoad<'a> {
    round: u32,
    subject: &'a str,
    payload_bytes: usize,
    scale: f64,
}

impl OneLoad<'_> {
    fn add(&self, rows: &mut Round) {
        let paper = self.subject.ends_with("paper");
        let throughput = if paper { FALLEN } else { 12.0 * self.scale };
        rows.samples
            .push(self.sample("tcp-stream", "throughput", "Gbit/s", throughput));
        rows.samples
            .push(self.sample("tcp-latency", "p50", "us", 13.4 * self.scale));
        rows.samples
            .push(self.sample("tcp-latency", "p99", "us", 60.2 * self.scale));
        rows.samples
            .push(self.sample("udp-flood", "delivered_rate", "kpps", 240.0 * self.scale));
        let lost = if paper { 52.4 } else { 0.0 };
        rows.samples
            .push(self.sample("udp-flood", "lost_percent", "%", lost));
        if !["none", "accept"].contains(&self.subject) {
            for workload in ["tcp-stream", "tcp-latency", "udp-flood"] {
                rows.samples
                    .push(self.sample(workload, "cpu_per_packet", "us", 2.07 * self.scale));
            }
        }
        let tenths = (1..=10).map(|tenth| f64::from(tenth) / 10.0);
        rows.series.extend(tenths.map(|second| SeriesRow {
            round: self.round,
            subject: self.subject.into(),
            workload: "tcp-stream".into(),
            path: "loopback".into(),
            payload_bytes: self.payload_bytes,
            policy: None,
            second,
            value: throughput,
            unit: "Gbit/s".into(),
        }));
        let curve = [
            (0.0, 9.0),
            (50.0, 13.4),
            (90.0, 20.0),
            (99.0, 60.2),
            (99.9, 400.0),
            (99.99, 3200.0),
        ];
        rows.percentiles
            .extend(curve.map(|(percentile, value)| PercentileRow {
                round: self.round,
                subject: self.subject.into(),
                workload: "tcp-latency".into(),
                path: "loopback".into(),
                payload_bytes: self.payload_bytes,
                policy: None,
                percentile,
                value: value * self.scale,
                unit: "us".into(),
            }));
    }

    fn sample(&self, workload: &str, metric: &str, unit: &str, value: f64) -> Sample {
        Sample {
            round: self.round,
            position: 1,
            subject: self.subject.into(),
            workload: workload.into(),
            path: "loopback".into(),
            payload_bytes: self.payload_bytes,
            policy: None,
            metric: metric.into(),
            unit: unit.into(),
            value,
        }
    }
}
