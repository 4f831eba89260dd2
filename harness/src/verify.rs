// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares a result's metadata and rows with its experiment's file, to find stale results.

use std::path::Path;

use anyhow::{Context, Result};

use crate::experiment::{Experiment, ExperimentKind};
use crate::metadata::Metadata;
use crate::schedule::{cells, Cell};
use crate::store::{Sample, Store, Summary};
use crate::subject::Subject;
use crate::summary::summarize;

/// Maximum number of characters of a value that a message shows.
const SHOWN: usize = 100;

/// Returns the stale parts of a result folder in words: none if the result matches the experiment. Fails if the result
/// can't be read.
pub fn stale(experiment: &Experiment, folder: &Path) -> Result<Vec<String>> {
    let metadata = Metadata::read(folder)?;
    let samples: Vec<Sample> = Store::open(folder).read()?;
    let mut found = settings(experiment, &metadata)?;
    found.extend(completeness(&metadata));
    found.extend(loads(experiment, &metadata, &samples));
    found.extend(files(&metadata, folder));
    found.extend(summary(&metadata, folder, &samples)?);
    Ok(found)
}

/// Checks that summary.csv follows from the samples. Returns a message if not.
fn summary(metadata: &Metadata, folder: &Path, samples: &[Sample]) -> Result<Option<String>> {
    let mut written: Vec<Summary> = Store::open(folder).read()?;
    let mut anew = summarize(samples, &metadata.baseline);
    // A NaN equals nothing, so rows without a finite median are not compared.
    for rows in [&mut written, &mut anew] {
        rows.retain(|row| row.median.is_finite());
    }
    let words = "summary.csv does not follow from samples.csv.gz: harness report writes it again";
    Ok((written != anew).then(|| words.into()))
}

/// Compares the settings that are in both the file and the metadata. A result may have more or longer rounds than the
/// file asks for: it answers the same question, with narrower intervals.
fn settings(experiment: &Experiment, metadata: &Metadata) -> Result<Vec<String>> {
    let there =
        |subject: &&Subject| !subject.is_optional() || metadata.subjects.contains(&subject.name());
    let subjects = experiment.subjects.iter().filter(there);
    let subjects: Vec<String> = subjects.map(Subject::name).collect();
    let all = cells(experiment);
    let sliced = metadata.slices.is_some();
    let mut found = Vec::new();
    let mut hold = |name: &str, wanted: serde_json::Value, measured: serde_json::Value| {
        if wanted != measured {
            let (wanted, measured) = (in_short(&wanted), in_short(&measured));
            found.push(format!(
                "{name}: the file says {wanted}, the result {measured}"
            ));
        }
    };
    macro_rules! hold {
        ($($field:ident),*) => {
            $(hold(
                stringify!($field),
                serde_json::to_value(&experiment.$field)?,
                serde_json::to_value(&metadata.$field)?,
            );)*
        };
    }
    hold!(title, question, kind, baseline, compare, claims, figures, references);
    hold(
        "subjects",
        subjects.into(),
        metadata.subjects.clone().into(),
    );
    if all.iter().any(Cell::is_sliced) && (sliced || experiment.rounds == 0) {
        let mut wanted = experiment.slices.clone();
        if let Some(measured) = &metadata.slices {
            wanted.rounds = wanted.rounds.max(measured.rounds);
            wanted.most_seconds = wanted.most_seconds.max(measured.most_seconds);
        }
        let wanted = serde_json::to_value(Some(wanted))?;
        hold("slices", wanted, serde_json::to_value(&metadata.slices)?);
    }
    if !all.iter().all(Cell::is_sliced) && (!sliced || metadata.rounds > 0) {
        let at_least = |wanted: u32, measured: u32| wanted.max(measured).into();
        let (rounds, seconds) = (metadata.rounds, metadata.seconds);
        hold("rounds", at_least(experiment.rounds, rounds), rounds.into());
        hold(
            "seconds",
            at_least(experiment.seconds, seconds),
            seconds.into(),
        );
        hold!(warmup_seconds);
    }
    Ok(found)
}

/// Returns a value in one line: only the beginning of a long value, such as all figures.
fn in_short(value: &serde_json::Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Checks that the run was complete, made from committed sources, and measured in namespaces. Returns the exceptions in
/// words.
fn completeness(metadata: &Metadata) -> Vec<String> {
    let checks = [
        (
            metadata.ended.is_none(),
            "the run was interrupted".to_string(),
        ),
        (
            metadata.rounds_done < metadata.rounds,
            format!("{} of {} rounds", metadata.rounds_done, metadata.rounds),
        ),
        (
            metadata.source.dirty,
            "the source had changes that are in no commit".into(),
        ),
        (
            metadata.host,
            "measured on the machine's own loopback".into(),
        ),
    ];
    let stale = checks.into_iter().filter(|(stale, _)| *stale);
    stale.map(|(_, words)| words).collect()
}

/// Checks that the rows are of the loads in the file, that no load is missing, and that each workload was made by a
/// runner that the file allows. Returns the exceptions in words.
fn loads(experiment: &Experiment, metadata: &Metadata, samples: &[Sample]) -> Vec<String> {
    let mut found = Vec::new();
    let wanted: Vec<_> = cells(experiment).iter().map(Cell::name).collect();
    let missing = wanted
        .iter()
        .filter(|cell| !samples.iter().any(|sample| sample.cell() == **cell));
    found.extend(missing.map(|cell| format!("{cell}: no sample")));
    let mut strangers = Vec::new();
    for sample in samples {
        let cell = sample.cell();
        if !wanted.contains(&cell) && !strangers.contains(&cell) {
            strangers.push(cell);
        }
    }
    let words = strangers
        .iter()
        .map(|cell| format!("{cell}: not in the file"));
    found.extend(words);
    for used in &metadata.runners {
        let mut plans = experiment.workloads.iter();
        let plan = plans.find(|plan| plan.name.to_string() == used.workload);
        let allowed = |plan: &crate::experiment::WorkloadPlan| {
            plan.runner
                .iter()
                .any(|name| name.to_string() == used.runner)
        };
        if plan.is_some_and(|plan| !allowed(plan)) {
            found.push(format!("{}: made by {}", used.workload, used.runner));
        }
    }
    found
}

/// Checks that the experiment's figures exist. Returns the missing figures in words.
fn files(metadata: &Metadata, folder: &Path) -> Vec<String> {
    let names = metadata
        .figures
        .iter()
        .map(|figure| format!("{}.svg", figure.name));
    let missing = names.filter(|name| !folder.join(name).is_file());
    missing.map(|name| format!("{name} is not there")).collect()
}

/// Returns the stale parts of a result folder in words. The folder's metadata name its experiment. A scan has no file:
/// only its completeness and its summary are checked.
/// - experiments: folder of the experiment files.
pub fn stale_in(experiments: &Path, folder: &Path) -> Result<Vec<String>> {
    let metadata = Metadata::read(folder)?;
    if metadata.kind == ExperimentKind::Scan {
        let samples: Vec<Sample> = Store::open(folder).read()?;
        let mut found = completeness(&metadata);
        found.extend(summary(&metadata, folder, &samples)?);
        return Ok(found);
    }
    let file = experiments.join(format!("{}.toml", metadata.experiment));
    let experiment = Experiment::read(&file).context("its experiment")?;
    stale(&experiment, folder)
}
