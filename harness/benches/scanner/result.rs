// SPDX-License-Identifier: GPL-2.0-or-later
//! The result folder: rows, metadata and figures like those of an experiment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use harness::experiment::ExperimentKind;
use harness::metadata::{now, version_of, Machine, Metadata, Source};
use harness::plot::draw_all;
use harness::results::Results;
use harness::store::{Round, Sample, Store};

use super::subject::Run;
use super::Workload;

/// Other scanners whose version is recorded if they are on PATH.
const SCANNERS: [&str; 4] = ["nmap", "masscan", "rustscan", "io_uring_scanner"];

/// Writes measurements to the disk as they arrive.
pub struct Recorder {
    out: PathBuf,
    store: Store,
    metadata: Metadata,
}

impl Recorder {
    pub fn new(out: &Path, rounds: usize) -> anyhow::Result<Recorder> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let versions = SCANNERS.map(|name| (name.to_string(), version_of(name, "--version")));
        let tools: BTreeMap<String, String> = versions
            .into_iter()
            .filter(|(_, version)| version != "not found")
            .collect();
        let metadata = Metadata {
            experiment: "scanner".into(),
            title: "Scanners".into(),
            question: "What does a scan of many targets cost, here and with other scanners?".into(),
            kind: ExperimentKind::Scan,
            source: Source::of(&root),
            machine: Machine::here(),
            tools,
            commands: Vec::new(),
            config_hash: String::new(),
            started: now(),
            ended: None,
            rounds: rounds as u32,
            rounds_done: 0,
            warmup_seconds: 0,
            seconds: 0,
            slices: None,
            loads_done: Vec::new(),
            host: false,
            subjects: Vec::new(),
            baseline: String::new(),
            compare: Vec::new(),
            claims: Vec::new(),
            runners: Vec::new(),
            figures: Vec::new(),
            references: Vec::new(),
            incidents: Vec::new(),
        };
        let store = Store::create(out)?;
        metadata.write(&store)?;
        Ok(Recorder {
            out: out.into(),
            store,
            metadata,
        })
    }

    /// Adds the successful runs of one subject, numbered from 1 as its rounds.
    pub fn add(&mut self, workload: &Workload, subject: &str, runs: &[Run]) -> anyhow::Result<()> {
        if !self.metadata.subjects.iter().any(|name| name == subject) {
            self.metadata.subjects.push(subject.into());
        }
        let (name, path) = workload.slug();
        let mut rows = Round::default();
        for (round, run) in (1..).zip(runs) {
            let values = [
                ("wall", "s", Some(run.wall.as_secs_f64())),
                // At least 1 ms: the kernel may count CPU time in clock ticks.
                ("cpu", "s", Some(run.cpu.as_secs_f64().max(0.001))),
                ("open", "targets", Some(run.open as f64)),
                ("calls_per_target", "calls", run.calls),
            ];
            let sample = |(metric, unit, value): (&str, &str, Option<f64>)| {
                Some(Sample {
                    round,
                    position: 0,
                    subject: subject.into(),
                    workload: name.into(),
                    path: path.into(),
                    payload_bytes: run.targets as usize,
                    policy: None,
                    metric: metric.into(),
                    unit: unit.into(),
                    value: value?,
                })
            };
            rows.samples.extend(values.into_iter().filter_map(sample));
        }
        self.store.append(&rows)?;
        self.metadata.write(&self.store)
    }

    /// Writes the summary and the figures of everything added.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.metadata.rounds_done = self.metadata.rounds;
        self.metadata.ended = Some(now());
        self.metadata.write(&self.store)?;
        Results::work_out(&self.out)?;
        for file in draw_all(&self.out)? {
            println!("{}", file.display());
        }
        Ok(())
    }
}
