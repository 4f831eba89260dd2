// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a whole experiment: loads with slices, warm-up, counted calls, rounds. Each load with slices, and each round,
//! is on the disk before the next starts.

mod rows;

use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::count::CALLS_PER;
use crate::experiment::Route;
use crate::experiment::Slices;
use crate::interrupt;
use crate::metadata::{now, Metadata};
use crate::plan::{Plan, Request};
use crate::progress::Progress;
use crate::runner::Outcome;
use crate::schedule::{self, Cell, Step};
use crate::slices::{self, SlicedOutcome};
use crate::store::{raw_start, CellName, Round, Sample, Store, METADATA, UNTIMED};
use crate::subject::Subject;
use crate::summary::main_metric;
use crate::table::number;
use rows::SampleOf;

/// Number of consecutive failed runs that ends the experiment, because the cause is permanent.
const FAILURES_IN_A_ROW: u32 = 3;

/// Runs the experiment of a request. Whole rounds are kept even after a failure; metadata.json contains their number.
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
            "{} holds something other than a result: choose another folder with --out",
            folder.display()
        );
    }
    let store = Store::create(folder)?;
    plan.metadata.write(&store)?;
    Ok(store)
}

/// Opens the result folder of an interrupted run, so that the run can continue. Removes the data of incomplete rounds
/// and of incomplete loads in slices, and copies the progress from the old metadata to the plan. Fails if the old run
/// had another configuration.
fn resume(plan: &mut Plan, folder: &Path) -> Result<Store> {
    let old = Metadata::read(folder).context("there is nothing to resume: leave --resume out")?;
    if old.config_hash != plan.metadata.config_hash {
        bail!(
            "{}: the experiment, its options or the programs are not those of its rounds: \
             leave --resume out to start anew, or choose another folder with --out",
            folder.display()
        );
    }
    let store = Store::open(folder);
    let loads: Vec<CellName> = plan.cells.iter().map(Cell::name).collect();
    store.cut(&loads, |load, round| match is_sliced(plan, load) {
        true => old.loads_done.contains(&load.to_string()),
        false => round <= old.rounds_done,
    })?;
    plan.metadata = Metadata {
        started: old.started,
        rounds_done: old.rounds_done,
        loads_done: old.loads_done,
        incidents: old.incidents,
        ..plan.metadata.clone()
    };
    plan.metadata.write(&store)?;
    Ok(store)
}

/// Returns true if the system calls were counted. Loads in slices have values without a round too.
fn has_counts(samples: &[Sample]) -> bool {
    samples
        .iter()
        .any(|sample| sample.round == UNTIMED && sample.metric.starts_with(CALLS_PER))
}

fn is_sliced(plan: &Plan, load: &CellName) -> bool {
    let mut sliced = plan.cells.iter().filter(|cell| cell.is_sliced());
    sliced.any(|cell| cell.name() == *load)
}

/// A plan during its execution.
struct Session<'a> {
    plan: &'a Plan<'a>,
    store: &'a Store,
    metadata: Metadata,
    progress: Progress,
    failures_in_a_row: u32,
    /// True if the runs that count system calls are still to be made.
    count: bool,
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan<'a>, store: &'a Store) -> Result<Session<'a>> {
        let metadata = plan.metadata.clone();
        let experiment = &plan.experiment;
        let samples: Vec<Sample> = store.read()?;
        let count = experiment.count_syscalls && !has_counts(&samples);
        let rounds = experiment.rounds.saturating_sub(metadata.rounds_done);
        let progress = Progress::new(schedule::amount(experiment, rounds, count, |cell| {
            !metadata.loads_done.contains(&cell.name().to_string())
        }));
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
        let in_slices = self.plan.cells.iter().filter(|cell| cell.is_sliced());
        self.progress.say(&format!(
            "{}: {} loads, {} of them in slices, x {} subjects, about {}",
            experiment.title,
            self.plan.cells.len(),
            in_slices.count(),
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
        for cell in self.plan.cells.iter().filter(|cell| cell.is_sliced()) {
            if !self.metadata.loads_done.contains(&cell.name().to_string()) {
                self.sliced(cell)?;
            }
        }
        if self.metadata.rounds_done < self.metadata.rounds {
            self.warm_up()?;
        }
        if self.count {
            self.count_calls()?;
        }
        for round in self.metadata.rounds_done + 1..=self.metadata.rounds {
            self.round(round)?;
        }
        self.metadata.ended = Some(now());
        self.metadata.write(self.store)?;
        self.progress.finish();
        Ok(())
    }

    /// Measures all subjects under a load in slices and saves the results. After an interruption, saves the slices so
    /// far and fails: a resumed run measures the load again.
    fn sliced(&mut self, cell: &Cell) -> Result<()> {
        let plan = self.plan;
        let (subjects, slices) = (&plan.experiment.subjects, &plan.experiment.slices);
        self.progress.begin(format!("in slices  {}", cell.name()));
        let mut outcome = slices::measure(&plan.site, subjects, cell, slices)
            .with_context(|| cell.name().to_string())?;
        let (count, load) = (
            subjects.len() as u32,
            slices.duration(subjects.len() as u32),
        );
        let result = format!("{} rounds of slices", outcome.rounds);
        self.progress.end(count, load, &result);
        for incident in std::mem::take(&mut outcome.incidents) {
            self.incident(format!("{}, {incident}", cell.name()));
        }
        self.store
            .append(&rows_of(&outcome, subjects, cell, slices))?;
        interrupt::check()?;
        self.metadata.loads_done.push(cell.name().to_string());
        self.metadata.write(self.store)
    }

    /// Runs each subject once under the first load without slices and discards the results; does nothing without
    /// warm-up time. A failure here ends the run, so that a broken setup is found immediately.
    fn warm_up(&mut self) -> Result<()> {
        let seconds = self.plan.experiment.warmup_seconds;
        let first = self.plan.cells.iter().position(|cell| !cell.is_sliced());
        let Some(first) = first.filter(|_| seconds > 0) else {
            return Ok(());
        };
        for subject in &self.plan.experiment.subjects {
            let cell = &self.plan.cells[first];
            self.progress.begin(format!("warm-up  {subject}"));
            let outcome = self
                .plan
                .site
                .measure(subject, cell, self.plan.runners[first], seconds);
            let outcome = outcome.with_context(|| format!("{subject}, {}", cell.name()))?;
            self.progress
                .end(1, in_seconds(seconds), &main_result(cell, &outcome));
        }
        Ok(())
    }

    /// Counts the system calls of each program under each load, once. Omits loads in the virtual machine.
    fn count_calls(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut counts = Round::default();
        for (cell, runner) in plan.cells.iter().zip(&plan.runners) {
            // In the virtual machine only instructions are counted.
            if cell.route == Route::Vm {
                continue;
            }
            for subject in plan.experiment.subjects.iter().filter(|s| s.is_program()) {
                self.progress
                    .begin(format!("counting calls  {subject}  {}", cell.name()));
                let table = std::env::temp_dir().join(format!("twinwall-strace-{}", process::id()));
                let metric = plan
                    .site
                    .count_calls(subject, cell, *runner, &table)
                    .with_context(|| format!("counting the calls of {subject}, {}", cell.name()))?;
                let text = std::fs::read_to_string(&table).unwrap_or_default();
                // On failure the file stays in the folder of temporary files.
                let _ = std::fs::remove_file(&table);
                let name = raw_name(UNTIMED, subject, cell, "strace.txt");
                counts.raw.push((name, text));
                self.progress.end(
                    1,
                    schedule::counted_load(&plan.experiment),
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

    /// Measures a round and writes it to the disk.
    fn round(&mut self, number: u32) -> Result<()> {
        let plan = self.plan;
        let subjects = plan.experiment.subjects.len();
        let mut round = Round::default();
        let whole = (0..plan.cells.len()).filter(|index| {
            let cell = &plan.cells[*index];
            !cell.is_sliced() && cell.is_in(number)
        });
        let steps = schedule::round(number, &whole.collect::<Vec<_>>(), subjects);
        for (place, step) in steps.iter().enumerate() {
            self.step(number, place as u32 + 1, *step, &mut round)?;
        }
        self.store.append(&round)?;
        self.metadata.rounds_done = number;
        self.metadata.write(self.store)
    }

    /// Runs one step of a round and adds its rows. A failed run is only recorded as an incident, because it must not
    /// discard hours of other runs. Fails after FAILURES_IN_A_ROW failed runs in a row, or after an interruption.
    fn step(&mut self, round: u32, position: u32, step: Step, rows: &mut Round) -> Result<()> {
        let plan = self.plan;
        let (subject, cell) = (
            &plan.experiment.subjects[step.subject],
            &plan.cells[step.cell],
        );
        let seconds = plan.experiment.seconds;
        let load = schedule::load_of(&plan.experiment, cell);
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
                self.progress.end(1, load, &main_result(cell, &outcome));
                for incident in &outcome.incidents {
                    self.incident(format!("{what}: {incident}"));
                }
                let row = SampleOf {
                    round,
                    position,
                    subject,
                    cell,
                };
                let named = |(name, text): &(String, String)| {
                    (raw_name(round, subject, cell, name), text.clone())
                };
                rows.raw.extend(outcome.raw.iter().map(named));
                row.keep(&outcome, rows);
                Ok(())
            }
            Err(error) if interrupt::interrupted() => Err(error),
            Err(error) => {
                self.failures_in_a_row += 1;
                self.progress.end(1, load, "failed");
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

fn in_seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// Returns the rows of a load with slices. Metrics of the whole load belong to no round.
fn rows_of(outcome: &SlicedOutcome, subjects: &[Subject], cell: &Cell, slices: &Slices) -> Round {
    let mut rows = Round::default();
    let main = main_metric(&cell.workload.to_string());
    let length = slices.round(subjects.len() as u32).as_secs_f64();
    for placed in &outcome.slices {
        let row = SampleOf {
            round: placed.round,
            position: placed.position,
            subject: &subjects[placed.index],
            cell,
        };
        // All subjects of a round have the same time, so that a figure shows them side by side.
        let second = f64::from(placed.round) * length;
        let own = placed.metrics.iter().find(|m| m.name == main);
        rows.series
            .extend(own.map(|m| row.second(second, m.value, m.unit)));
        let metrics = placed.metrics.iter();
        rows.samples
            .extend(metrics.map(|m| row.sample(m.name, m.unit, m.value)));
    }
    for (subject, whole) in subjects.iter().zip(&outcome.wholes) {
        let row = SampleOf {
            round: UNTIMED,
            position: 0,
            subject,
            cell,
        };
        let metrics = whole.metrics(cell.workload).into_iter();
        rows.samples
            .extend(metrics.map(|m| row.sample(m.name, m.unit, m.value)));
        let points = whole.percentiles().into_iter();
        rows.percentiles
            .extend(points.map(|(x, y)| row.percentile(x, y)));
    }
    let raw = outcome.raw.iter().map(|(index, name, text)| {
        let name = raw_name(UNTIMED, &subjects[*index], cell, name);
        (name, text.clone())
    });
    rows.raw.extend(raw);
    rows
}

fn main_result(cell: &Cell, outcome: &Outcome) -> String {
    let name = main_metric(&cell.workload.to_string());
    let metric = outcome.metrics.iter().find(|metric| metric.name == name);
    metric.map_or("-".into(), |metric| {
        format!("{} {}", number(metric.value), metric.unit)
    })
}

/// Returns the name of a tool's output in raw.jsonl.gz; names sort by round, load and subject.
fn raw_name(round: u32, subject: &Subject, cell: &Cell, name: &str) -> String {
    format!("{}{subject}-{name}", raw_start(round, &cell.name()))
}

#[cfg(test)]
mod tests;
