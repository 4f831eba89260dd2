// SPDX-License-Identifier: GPL-2.0-or-later
//! A whole experiment: warm-up, counted calls, rounds; each round is on the disk before the next
//! starts.

use std::path::Path;

use anyhow::{bail, Context, Result};

use crate::interrupt;
use crate::metadata::{now, Metadata};
use crate::plan::{Plan, Request};
use crate::progress::Progress;
use crate::report::number;
use crate::runner::Outcome;
use crate::schedule::{self, Cell, Step};
use crate::store::{
    CellName, PercentileRow, Round, Sample, SeriesRow, Store, METADATA, RAW, UNTIMED,
};
use crate::subject::Subject;
use crate::summary::main_metric;

/// After this many failed runs in a row something is wrong that will not pass.
const FAILURES_IN_A_ROW: u32 = 3;

/// Runs what is asked for. Whole rounds are kept however it ends; metadata.json says how many there
/// are.
pub fn run(request: &Request) -> Result<()> {
    let mut plan = Plan::new(request)?;
    let store = match request.resume {
        true => resume(&mut plan, &request.out)?,
        false => create(&plan, &request.out)?,
    };
    Session::new(&plan, &store)?.run()
}

fn create(plan: &Plan, folder: &Path) -> Result<Store> {
    let foreign = folder.exists()
        && !folder.join(METADATA).exists()
        && std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if foreign {
        bail!(
            "{} holds something else than a result: choose another with --out",
            folder.display()
        );
    }
    let store = Store::create(folder)?;
    plan.metadata.write(&store)?;
    Ok(store)
}

/// Takes up a result where it was left.
fn resume(plan: &mut Plan, folder: &Path) -> Result<Store> {
    let old = Metadata::read(folder).context("there is nothing to resume: leave --resume out")?;
    if old.config_hash != plan.metadata.config_hash {
        bail!(
            "{}: the experiment, its options or the programs are not those of its {} rounds: \
             leave --resume out to start anew, or choose another folder with --out",
            folder.display(),
            old.rounds_done
        );
    }
    let store = Store::open(folder);
    store.cut_to(old.rounds_done)?;
    plan.metadata = Metadata {
        started: old.started,
        rounds_done: old.rounds_done,
        incidents: old.incidents,
        ..plan.metadata.clone()
    };
    plan.metadata.write(&store)?;
    Ok(store)
}

/// A plan while it is carried out.
struct Session<'a> {
    plan: &'a Plan<'a>,
    store: &'a Store,
    metadata: Metadata,
    progress: Progress,
    failures_in_a_row: u32,
    /// Whether the counted runs are still to be made.
    count: bool,
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan<'a>, store: &'a Store) -> Result<Session<'a>> {
        let metadata = plan.metadata.clone();
        let experiment = &plan.experiment;
        let samples: Vec<Sample> = store.read()?;
        let counted = samples.iter().any(|sample| sample.round == UNTIMED);
        let count = experiment.count_syscalls && !counted;
        let rounds = experiment.rounds.saturating_sub(metadata.rounds_done);
        let progress = Progress::new(schedule::amount(experiment, rounds, count));
        Ok(Session {
            plan,
            store,
            metadata,
            progress,
            failures_in_a_row: 0,
            count,
        })
    }

    fn run(mut self) -> Result<()> {
        let experiment = &self.plan.experiment;
        self.progress.say(&format!(
            "{}: {} rounds of {} loads x {} subjects, about {}",
            experiment.title,
            experiment.rounds,
            self.plan.cells.len(),
            experiment.subjects.len(),
            self.progress.left()
        ));
        let runner_notes = self
            .metadata
            .runners
            .iter()
            .filter_map(|used| used.note.clone());
        for note in self.plan.notes.iter().cloned().chain(runner_notes) {
            self.progress.say(&format!("note: {note}"));
        }
        if self.metadata.rounds_done < experiment.rounds {
            self.warm_up()?;
        }
        if self.count {
            self.count_calls()?;
        }
        for round in self.metadata.rounds_done + 1..=experiment.rounds {
            self.round(round)?;
        }
        self.metadata.ended = Some(now());
        self.metadata.write(self.store)?;
        self.progress.finish();
        Ok(())
    }

    /// Runs each subject once under the first load and forgets what came of it. A failure here ends
    /// the run: what does not work at all shows now.
    fn warm_up(&mut self) -> Result<()> {
        let seconds = self.plan.experiment.warmup_seconds;
        if seconds == 0 {
            return Ok(());
        }
        for subject in &self.plan.experiment.subjects {
            let cell = &self.plan.cells[0];
            self.progress.begin(format!("warm-up  {subject}"));
            let outcome = self
                .plan
                .site
                .measure(subject, cell, self.plan.runners[0], seconds);
            let outcome = outcome.with_context(|| format!("{subject}, {}", cell.name()))?;
            self.progress.end(seconds, &main_result(cell, &outcome));
        }
        Ok(())
    }

    /// Counts the system calls of each firewall under each load, once.
    fn count_calls(&mut self) -> Result<()> {
        let plan = self.plan;
        let seconds = plan.experiment.seconds;
        let mut counts = Round::default();
        for (cell, runner) in plan.cells.iter().zip(&plan.runners) {
            for subject in plan.experiment.subjects.iter().filter(|s| s.has_firewall()) {
                self.progress
                    .begin(format!("counting calls  {subject}  {}", cell.name()));
                let table = self.store.folder().join(RAW).join(file_name(
                    UNTIMED,
                    subject,
                    cell,
                    "strace.txt",
                ));
                let metric = plan
                    .site
                    .count_calls(subject, cell, *runner, seconds, &table)
                    .with_context(|| format!("counting the calls of {subject}, {}", cell.name()))?;
                self.progress.end(
                    seconds,
                    &format!("{} {}", number(metric.value), metric.name),
                );
                let row = SampleOf {
                    round: UNTIMED,
                    position: 0,
                    subject,
                    cell,
                };
                counts
                    .samples
                    .push(row.sample(metric.name, metric.unit, metric.value));
            }
        }
        self.store.append(&counts)
    }

    /// Measures a round and puts it on the disk.
    fn round(&mut self, number: u32) -> Result<()> {
        let plan = self.plan;
        let subjects = plan.experiment.subjects.len();
        let mut round = Round::default();
        let steps = schedule::round(number, plan.cells.len(), subjects);
        for (place, step) in steps.iter().enumerate() {
            self.step(number, place as u32 + 1, *step, &mut round)?;
        }
        self.store.append(&round)?;
        self.metadata.rounds_done = number;
        self.metadata.write(self.store)
    }

    /// One run of a round. Its failure is an incident: one run in hours must not cost the others.
    fn step(&mut self, round: u32, position: u32, step: Step, rows: &mut Round) -> Result<()> {
        let plan = self.plan;
        let (subject, cell) = (
            &plan.experiment.subjects[step.subject],
            &plan.cells[step.cell],
        );
        let seconds = plan.experiment.seconds;
        let rounds = plan.experiment.rounds;
        self.progress.begin(format!(
            "round {round}/{rounds}  {subject}  {}",
            cell.name()
        ));
        let what = format!("round {round}, {subject}, {}", cell.name());
        match plan
            .site
            .measure(subject, cell, plan.runners[step.cell], seconds)
        {
            Ok(outcome) => {
                self.failures_in_a_row = 0;
                self.progress.end(seconds, &main_result(cell, &outcome));
                for incident in &outcome.incidents {
                    self.incident(format!("{what}: {incident}"));
                }
                let row = SampleOf {
                    round,
                    position,
                    subject,
                    cell,
                };
                for (name, contents) in &outcome.raw {
                    self.store
                        .write_raw(&file_name(round, subject, cell, name), contents)?;
                }
                row.keep(&outcome, rows);
                Ok(())
            }
            Err(error) if interrupt::interrupted() => Err(error),
            Err(error) => {
                self.failures_in_a_row += 1;
                self.progress.end(seconds, "failed");
                self.incident(format!("{what}: {error:#}"));
                if self.failures_in_a_row == FAILURES_IN_A_ROW {
                    return Err(error.context(format!("{FAILURES_IN_A_ROW} runs in a row failed")));
                }
                Ok(())
            }
        }
    }

    fn incident(&mut self, words: String) {
        self.progress.say(&format!("incident: {words}"));
        self.metadata.incidents.push(words);
    }
}

fn main_result(cell: &Cell, outcome: &Outcome) -> String {
    let name = main_metric(&cell.workload.to_string());
    let metric = outcome.metrics.iter().find(|metric| metric.name == name);
    metric.map_or("-".into(), |metric| {
        format!("{} {}", number(metric.value), metric.unit)
    })
}

/// Raw files sort by round, load and subject.
fn file_name(round: u32, subject: &Subject, cell: &Cell, name: &str) -> String {
    let (workload, route, bytes) = (cell.workload, cell.route, cell.payload_bytes);
    let policy = cell
        .policy
        .map_or(String::new(), |policy| format!("{policy}-"));
    format!("{round:03}-{workload}-{route}-{bytes}-{policy}{subject}-{name}")
}

/// What the rows of one run have in common.
struct SampleOf<'a> {
    round: u32,
    position: u32,
    subject: &'a Subject,
    cell: &'a Cell,
}

impl SampleOf<'_> {
    fn sample(&self, metric: &str, unit: &str, value: f64) -> Sample {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, position, subject) = (self.round, self.position, self.subject.name());
        let (metric, unit) = (metric.to_string(), unit.to_string());
        Sample {
            round,
            position,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            metric,
            unit,
            value,
        }
    }

    fn second(&self, second: f64, value: f64, unit: &str) -> SeriesRow {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, subject, unit) = (self.round, self.subject.name(), unit.to_string());
        SeriesRow {
            round,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            second,
            value,
            unit,
        }
    }

    fn percentile(&self, percentile: f64, value: f64) -> PercentileRow {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, subject, unit) = (self.round, self.subject.name(), "us".to_string());
        PercentileRow {
            round,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            percentile,
            value,
            unit,
        }
    }

    fn keep(&self, outcome: &Outcome, rows: &mut Round) {
        let main = main_metric(&self.cell.workload.to_string());
        let unit = outcome
            .metrics
            .iter()
            .find(|m| m.name == main)
            .map_or("", |m| m.unit);
        let samples = outcome
            .metrics
            .iter()
            .map(|m| self.sample(m.name, m.unit, m.value));
        rows.samples.extend(samples);
        rows.series
            .extend(outcome.series.iter().map(|&(x, y)| self.second(x, y, unit)));
        rows.percentiles.extend(
            outcome
                .percentiles
                .iter()
                .map(|&(x, y)| self.percentile(x, y)),
        );
    }
}

#[cfg(test)]
mod tests;
