// SPDX-License-Identifier: GPL-2.0-or-later
//! The commands of the program: list, run, plot, report, verify, policy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use clap::Args;

use crate::experiment::{files, Experiment, ExperimentKind, RunnerName};
use crate::interrupt;
use crate::metadata::Metadata;
use crate::plan::Request;
use crate::plot;
use crate::progress::{expected, in_words};
use crate::report::Report;
use crate::results::Results;
use crate::run::run;
use crate::runner::ethr::Ethr;
use crate::runner::iperf3::Iperf3;
use crate::runner::scanner::Scanner;
use crate::runner::Runner;
use crate::schedule::amount;
use crate::store::{Sample, Store, METADATA, UNTIMED};
use crate::synthetic::{SyntheticKind, SyntheticPolicy};
use crate::verify;

const EXPERIMENTS: &str = "harness/experiments";
const RESULTS: &str = "result";
const REPORT: &str = "report.md";
const PAGE: &str = "report.html";

#[derive(Args)]
pub struct RunArguments {
    /// The name of a shipped experiment (`harness list`), or an experiment's file
    experiment: String,
    /// Rounds, of slices too, in place of the experiment's [1..1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Seconds of each load that is not in slices, in place of the experiment's [1..3600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// The result folder [default: result/EXPERIMENT]; an earlier result in it is replaced, unless --resume is given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The folder of rust-firewall, c-firewall and the other measured programs [default: build]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// The ethr program [default: build/ethr, which make ethr builds; else that in PATH]
    #[arg(long, value_name = "PATH")]
    ethr: Option<PathBuf>,
    /// Make all traffic with this runner, whatever the experiment prefers
    #[arg(long, value_name = "NAME")]
    runner: Option<RunnerName>,
    /// Measure one more program beside ours; may be repeated. It is run without a shell, {queue}
    /// becomes the queue's number, and it must accept every packet
    #[arg(long = "subject", value_name = "NAME=COMMAND LINE")]
    subjects: Vec<String>,
    /// Measure on the machine's own loopback with `make rules`, not in network namespaces
    #[arg(long)]
    host: bool,
    /// Go on with the rounds of an interrupted run in the result folder
    #[arg(long)]
    resume: bool,
}

/// Prints the shipped experiments: question and expected duration of each, and the total duration.
pub fn list() -> Result<()> {
    let mut together = Duration::ZERO;
    for file in files(&root()?.join(EXPERIMENTS))? {
        let experiment = Experiment::read(&file)?;
        println!("{:<10} {}", experiment.name, experiment.question);
        let amount = amount(
            &experiment,
            experiment.rounds,
            experiment.count_syscalls,
            |_| true,
        );
        let expected = expected(amount);
        together += expected;
        println!("{:<10} about {}", "", in_words(expected));
    }
    println!("all        about {}", in_words(together));
    Ok(())
}

/// Prints the generated policy of a kind and size.
pub fn policy(kind: SyntheticKind, size: u32) -> Result<()> {
    let policy = SyntheticPolicy { kind, size };
    policy.check().map_err(|words| anyhow!(words))?;
    print!("{}", policy.text());
    Ok(())
}

/// Runs an experiment and prints its result, also after an interruption if some values were saved.
pub fn run_experiment(arguments: RunArguments) -> Result<()> {
    let root = root()?;
    let mut experiment = Experiment::read(&experiment_file(&root, &arguments.experiment)?)?;
    experiment.rounds = arguments.rounds.unwrap_or(experiment.rounds);
    experiment.slices.rounds = arguments.rounds.unwrap_or(experiment.slices.rounds);
    experiment.seconds = arguments.seconds.unwrap_or(experiment.seconds);
    for subject in &arguments.subjects {
        experiment.add_peer(subject)?;
    }
    let ethr = arguments.ethr;
    let bin_dir = arguments.bin_dir.unwrap_or(root.join("build"));
    if ethr.is_some() {
        // A wrong path on the command line is an error. Only an ethr that was not named explicitly may be missing.
        Ethr::find(ethr.clone(), &bin_dir)?;
    }
    let make_runner = |name| -> Result<Box<dyn Runner>> {
        Ok(match name {
            RunnerName::Builtin => bail!("builtin only makes slices: name another runner"),
            RunnerName::Ethr => Box::new(Ethr::find(ethr.clone(), &bin_dir)?),
            RunnerName::Iperf3 => Box::new(Iperf3::find()?),
            RunnerName::Scanner => Box::new(Scanner::find(&bin_dir, std::env::current_exe()?)?),
            RunnerName::Exchange | RunnerName::Bench => bail!("{name} is no runner of traffic"),
        })
    };
    let out = arguments
        .out
        .unwrap_or(root.join(RESULTS).join(&experiment.name));
    let request = Request {
        experiment,
        bin_dir: bin_dir.clone(),
        root,
        out: out.clone(),
        host: arguments.host,
        resume: arguments.resume,
        runner: arguments.runner,
        make_runner: &make_runner,
    };
    interrupt::watch()?;
    let Err(error) = run(&request) else {
        return show(&out);
    };
    if interrupt::interrupted() {
        let samples: Vec<Sample> = Store::open(&out).read().unwrap_or_default();
        if !samples.is_empty() {
            show(&out)?;
        }
        let rounds: BTreeSet<u32> = samples.iter().map(|sample| sample.round).collect();
        return Err(error.context(format!(
            "{} rounds are kept in {}: the same command with --resume goes on",
            rounds.iter().filter(|round| **round != UNTIMED).count(),
            out.display()
        )));
    }
    Err(error)
}

/// Recomputes a result, prints it and writes report.md; with `html`, also its figures and report.html. Fails for a
/// result of scans.
pub fn report(folder: &Path, html: bool) -> Result<()> {
    if Metadata::read(folder)?.kind == ExperimentKind::Scan {
        bail!(
            "the report of scans is that of make bench-scanner: see {}",
            folder.join(REPORT).display()
        );
    }
    let report = match html {
        true => redraw(folder)?.0,
        false => write_report(Results::work_out(folder)?, folder)?,
    };
    print!("{}", report.text());
    if html {
        Store::open(folder).replace(PAGE, report.html(folder)?.as_bytes())?;
        println!("\n{}", folder.join(PAGE).display());
    }
    Ok(())
}

fn write_report(results: Results, folder: &Path) -> Result<Report> {
    let scans = results.metadata.kind == ExperimentKind::Scan;
    let report = Report::new(results, folder)?;
    if scans {
        // `make bench-scanner` has written the report: only that benchmark has the list of scanned addresses.
        return Ok(report);
    }
    Store::open(folder).replace(REPORT, report.markdown().as_bytes())?;
    Ok(report)
}

/// Draws the figures of a result, or of all results, and rewrites summaries and reports (but no report of scans).
pub fn plot(folder: Option<&Path>) -> Result<()> {
    let folders = match folder {
        Some(folder) => vec![folder.to_path_buf()],
        None => results(&root()?.join(RESULTS))?,
    };
    for folder in folders {
        print_names(&redraw(&folder)?.1);
    }
    Ok(())
}

fn show(folder: &Path) -> Result<()> {
    let (report, figures) = redraw(folder)?;
    println!("{}", report.text());
    print_names(&figures);
    Ok(())
}

/// Compares one result, or the results of all experiments, with the experiments' files. Fails if a result is stale or
/// missing.
pub fn verify(folder: Option<&Path>) -> Result<()> {
    let root = root()?;
    let folders = match folder {
        Some(folder) => vec![folder.to_path_buf()],
        None => wanted_results(&root)?,
    };
    let mut stale = 0;
    for folder in &folders {
        let found = verify::stale_in(&root.join(EXPERIMENTS), folder)
            .unwrap_or_else(|error| vec![format!("{error:#}")]);
        stale += u32::from(!found.is_empty());
        let word = if found.is_empty() {
            "as its file says"
        } else {
            "stale"
        };
        println!("{}: {word}", folder.display());
        for words in found {
            println!("  {words}");
        }
    }
    if stale > 0 {
        bail!(
            "{stale} of {} results are stale: measure them again with make bench EXPERIMENT=NAME, all with make results",
            folders.len()
        );
    }
    Ok(())
}

/// Returns the existing result folders and those of shipped experiments without a result.
fn wanted_results(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = results(&root.join(RESULTS)).unwrap_or_default();
    for file in files(&root.join(EXPERIMENTS))? {
        let name = file.file_stem().context("an experiment without a name")?;
        folders.push(root.join(RESULTS).join(name));
    }
    folders.sort();
    folders.dedup();
    Ok(folders)
}

/// Writes the summary, the figures and report.md (not of scans) of a result, in this order: figures and report.md show
/// the same summary.
fn redraw(folder: &Path) -> Result<(Report, Vec<PathBuf>)> {
    let results = Results::work_out(folder)?;
    let figures = plot::draw_all(folder)?;
    Ok((write_report(results, folder)?, figures))
}

fn print_names(files: &[PathBuf]) {
    for file in files {
        println!("{}", file.display());
    }
}

/// Returns the result folders in `folder`, sorted by name.
fn results(folder: &Path) -> Result<Vec<PathBuf>> {
    let cure = || {
        format!(
            "{}: there are no results yet: harness run demo",
            folder.display()
        )
    };
    let entries = fs::read_dir(folder).with_context(cure)?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(METADATA).is_file());
    folders.sort();
    Ok(folders)
}

fn experiment_file(root: &Path, name: &str) -> Result<PathBuf> {
    if name.ends_with(".toml") {
        return Ok(name.into());
    }
    let file = root.join(EXPERIMENTS).join(format!("{name}.toml"));
    if !file.is_file() {
        let known = files(&root.join(EXPERIMENTS))?;
        let names: Vec<_> = known
            .iter()
            .filter_map(|file| file.file_stem()?.to_str())
            .collect();
        bail!(
            "there is no experiment {name:?}: expected one of {}, or a file",
            names.join(", ")
        );
    }
    Ok(file)
}

/// Returns the repository's folder: the current folder or an ancestor of it, otherwise an ancestor of this program's
/// file.
fn root() -> Result<PathBuf> {
    let starts = [std::env::current_dir(), std::env::current_exe()];
    let is_root =
        |folder: &&Path| folder.join(EXPERIMENTS).is_dir() && folder.join("rules").is_dir();
    starts
        .iter()
        .flatten()
        .find_map(|start| start.ancestors().find(is_root).map(Path::to_path_buf))
        .context("the repository was not found: start this inside of it")
}
