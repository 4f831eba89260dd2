// SPDX-License-Identifier: GPL-2.0-or-later
//! Plans a run before anything starts: subjects, loads, runners and programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde_json::json;

use crate::capturing;
use crate::exchange::Exchanges;
use crate::experiment::{Experiment, ExperimentKind, Route, RunnerName, WorkloadPlan};
use crate::load;
use crate::measure::{MakeRunner, Site};
use crate::metadata::{hash, now, version_of, Machine, Metadata, RunnerUse, Source};
use crate::recording;
use crate::runner::{scanner, Workload};
use crate::schedule::{cells, Cell};
use crate::staged::{split_words, StagedFiles, SPLITTER};
use crate::subject::{Kind, Subject, CAPTURE_LAB};
use crate::synthetic::{file_name, SyntheticFiles, SyntheticPolicy};

/// Run of an experiment as the command line requests it.
pub struct Request<'a> {
    pub experiment: Experiment,
    /// Root folder of the repository.
    pub root: PathBuf,
    pub bin_dir: PathBuf,
    /// Folder of the result.
    pub out: PathBuf,
    /// True to measure on the machine's own loopback, not in namespaces.
    pub host: bool,
    pub resume: bool,
    /// Runner that replaces the experiment's preference; None: the experiment's preference.
    pub runner: Option<RunnerName>,
    pub make_runner: &'a MakeRunner<'a>,
}

/// An experiment that is ready to run.
pub struct Plan<'a> {
    pub experiment: Experiment,
    pub cells: Vec<Cell>,
    /// Runner of each load, in the order of the loads (cells).
    pub runners: Vec<RunnerName>,
    pub site: Site<'a>,
    /// Metadata as written before the first round.
    pub metadata: Metadata,
    /// Notes on omitted parts of the experiment, with the reason.
    pub notes: Vec<String>,
}

impl<'a> Plan<'a> {
    pub fn new(request: &'a Request<'a>) -> Result<Plan<'a>> {
        let mut experiment = request.experiment.clone();
        let mut notes = Vec::new();
        if request.host {
            notes = fit_to_host(&mut experiment)?;
        }
        notes.extend(leave_out_missing(&mut experiment, &request.bin_dir));
        let mut programs = programs(&experiment.subjects, &request.bin_dir)?;
        let mut uses = Vec::new();
        let mut tools = BTreeMap::new();
        for workload in &mut experiment.workloads {
            let own = match experiment.kind {
                ExperimentKind::Exchange => Some(RunnerName::Exchange),
                ExperimentKind::Capture => Some(RunnerName::Bench),
                ExperimentKind::Traffic | ExperimentKind::Scan => None,
            };
            if let Some(own) = own {
                workload.runner = vec![own];
                continue;
            }
            let (name, version, note) = choose_runner(workload, request)?;
            tools.insert(name.to_string(), version);
            uses.push(RunnerUse {
                workload: workload.name.to_string(),
                runner: name.to_string(),
                note,
            });
            if name == RunnerName::Scanner {
                let file = request.bin_dir.join(scanner::PROGRAM);
                let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
                programs.insert(name.to_string(), hash(&bytes));
            }
            workload.runner = vec![name];
        }
        let cells = cells(&experiment);
        check_times(&experiment, &cells, request)?;
        let runners = cells.iter().map(|cell| cell.runners[0]).collect();
        let policies = SyntheticFiles::write(policies(&experiment, &cells))?;
        let staged = StagedFiles::write(&staged_policies(&experiment, &cells), &request.bin_dir)?;
        let site = Site {
            root: &request.root,
            bin_dir: &request.bin_dir,
            host: request.host,
            flows: experiment.flows,
            policies,
            staged,
            exchanges: Exchanges::new(
                &request.root,
                &request.bin_dir,
                &experiment.subjects,
                &cells,
            ),
            make_runner: request.make_runner,
        };
        tools.extend(tool_versions(&experiment));
        let metadata = metadata(&experiment, &cells, &site, tools, uses, &programs)?;
        Ok(Plan {
            experiment,
            cells,
            runners,
            site,
            metadata,
            notes,
        })
    }
}

/// Returns the contents of metadata.json before the first round.
fn metadata(
    experiment: &Experiment,
    cells: &[Cell],
    site: &Site,
    tools: BTreeMap<String, String>,
    uses: Vec<RunnerUse>,
    programs: &BTreeMap<String, String>,
) -> Result<Metadata> {
    Ok(Metadata {
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        kind: experiment.kind,
        source: Source::of(site.root),
        machine: Machine::here(),
        tools,
        commands: commands(experiment, cells, site)?,
        config_hash: config_hash(experiment, programs, site.host),
        started: now(),
        ended: None,
        rounds: match cells.iter().all(Cell::is_sliced) {
            true => 0,
            false => experiment.rounds,
        },
        rounds_done: 0,
        warmup_seconds: experiment.warmup_seconds,
        seconds: experiment.seconds,
        slices: cells
            .iter()
            .any(Cell::is_sliced)
            .then(|| experiment.slices.clone()),
        loads_done: Vec::new(),
        host: site.host,
        subjects: experiment.subjects.iter().map(Subject::name).collect(),
        baseline: experiment.baseline.clone(),
        compare: experiment.compare.clone(),
        claims: experiment.claims.clone(),
        runners: uses,
        figures: experiment.figures.clone(),
        references: experiment.references.clone(),
        incidents: Vec::new(),
    })
}

/// Removes the parts that can't be measured on the machine's own loopback, and returns notes on them. Fails if the
/// experiment has several queues, or if no load remains.
fn fit_to_host(experiment: &mut Experiment) -> Result<Vec<String>> {
    if experiment.flows > 1 {
        bail!(
            "--host: the rules of the machine lead to one queue: \
             leave --host out to measure several"
        );
    }
    let mut notes = Vec::new();
    experiment.subjects.retain(|subject| {
        let barred = barred_from_host(subject);
        notes.extend(barred.map(|why| format!("`{subject}` is left out: {why}")));
        barred.is_none()
    });
    let is_probe = |workload: Workload| workload == Workload::TcpProbe;
    let workloads = experiment.workloads.len();
    experiment.workloads.retain(|plan| !is_probe(plan.name));
    experiment
        .figures
        .retain(|figure| !is_probe(figure.workload));
    if experiment.workloads.len() < workloads {
        notes.push("tcp-probe is left out: it would change limits of the machine".into());
    }
    for workload in &mut experiment.workloads {
        let paths = workload.path.len();
        workload.path.retain(|route| *route == Route::Loopback);
        if workload.path.len() < paths {
            notes.push(format!(
                "{} over veth is left out: it needs namespaces",
                workload.name
            ));
        }
    }
    experiment
        .workloads
        .retain(|workload| !workload.path.is_empty());
    if experiment.workloads.is_empty() {
        bail!("--host: nothing of this experiment can be measured on the machine itself: leave --host out");
    }
    let names: Vec<String> = experiment.subjects.iter().map(Subject::name).collect();
    experiment
        .compare
        .retain(|pair| names.contains(&pair.a) && names.contains(&pair.b));
    experiment
        .claims
        .retain(|claim| names.contains(&claim.subject));
    experiment
        .figures
        .retain(|figure| figure.path == Route::Loopback);
    Ok(notes)
}

/// Returns the reason why a subject can't be measured on the machine's own loopback; None if it can.
fn barred_from_host(subject: &Subject) -> Option<&'static str> {
    let own_rules = Some("its rules would be the machine's own");
    match subject.kind {
        Kind::Accept => Some("make rules has no such rule"),
        Kind::Nftables | Kind::Tracked | Kind::Stage { .. } => own_rules,
        Kind::Peer { rules: Some(_), .. } => own_rules,
        _ => None,
    }
}

/// Removes optional subjects whose programs are not installed, and returns notes on them. Comparisons with them stay,
/// without values.
fn leave_out_missing(experiment: &mut Experiment, bin_dir: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    experiment.subjects.retain(|subject| {
        let programs = subject.programs(bin_dir).into_iter();
        let missing = programs
            .filter(|_| subject.is_optional())
            .find(|program| in_path(program).is_none());
        if let Some(program) = &missing {
            notes.push(format!(
                "{subject} is left out: there is no program {}: install it, or run make peers",
                program.display()
            ));
        }
        missing.is_none()
    });
    notes
}

/// Checks that rounds and seconds are not 0 if some load has no slices, and that with --host no load has slices.
fn check_times(experiment: &Experiment, cells: &[Cell], request: &Request) -> Result<()> {
    let in_rounds = cells.iter().any(|cell| !cell.is_sliced());
    if in_rounds && (experiment.rounds == 0 || experiment.seconds == 0) {
        bail!("the experiment has no times for loads that are not in slices: give --rounds and --seconds");
    }
    if request.host && cells.iter().any(Cell::is_sliced) {
        bail!(
            "--host: loads in slices have namespaces of their own: \
             leave --host out, or ask for --runner iperf3 or ethr"
        );
    }
    Ok(())
}

/// Returns the first available runner that can make the workload, its version, and the reason in words if it isn't the
/// first choice.
fn choose_runner(
    workload: &WorkloadPlan,
    request: &Request,
) -> Result<(RunnerName, String, Option<String>)> {
    let asked = match request.runner {
        Some(runner) => vec![runner],
        None => workload.runner.clone(),
    };
    let mut reasons = Vec::new();
    for name in asked {
        match version(workload.name, name, request) {
            Ok(Some(version)) => {
                let used = match name {
                    RunnerName::Builtin => "embedded generator used, in slices".to_string(),
                    other => format!("{other} used"),
                };
                let note = (!reasons.is_empty()).then(|| format!("{}: {used}", reasons.join(", ")));
                return Ok((name, version, note));
            }
            Ok(None) => reasons.push(format!("{name} does not make {}", workload.name)),
            // A runner from the command line, or a runner without a substitute, must be available.
            Err(error) if request.runner.is_some() || workload.name == Workload::TcpProbe => {
                return Err(error)
            }
            Err(_) => reasons.push(format!("{name} was not found")),
        }
    }
    let cure = match workload.name {
        Workload::TcpProbe => RunnerName::Scanner,
        _ => RunnerName::Builtin,
    };
    bail!("{}: use --runner {cure}", reasons.join(", "));
}

/// Returns the version of a runner that makes the workload; None if it can't make the workload. Fails if the runner is
/// not installed.
fn version(workload: Workload, name: RunnerName, request: &Request) -> Result<Option<String>> {
    if name == RunnerName::Builtin {
        let version = env!("CARGO_PKG_VERSION").to_string();
        return Ok(load::makes(workload).then_some(version));
    }
    let runner = (request.make_runner)(name)?;
    Ok(runner.supports(workload).then(|| runner.version()))
}

/// Returns the hash of each program's file, by subject; also of the splitter and of capture-lab, if subjects need them.
fn programs(subjects: &[Subject], bin_dir: &Path) -> Result<BTreeMap<String, String>> {
    let mut hashes = BTreeMap::new();
    for subject in subjects {
        let Some(program) = subject.program(bin_dir) else {
            continue;
        };
        let cure = match subject.kind {
            Kind::Peer { .. } => "install it, or give its path",
            Kind::Exchange if subject.is_way() => {
                "name the folder build of a checkout with --bin-dir"
            }
            Kind::Exchange => "build it with make -C kernel",
            _ => "build it with make build, or name its folder with --bin-dir",
        };
        let missing = || {
            format!(
                "{subject}: there is no program {}: {cure}",
                program.display()
            )
        };
        let file = in_path(&program).with_context(missing)?;
        let bytes = fs::read(&file).ok().with_context(missing)?;
        hashes.insert(subject.name(), hash(&bytes));
    }
    if subjects.iter().any(Subject::is_staged) {
        let file = bin_dir.join(SPLITTER);
        let missing = || format!("there is no program {}: make tools", file.display());
        let bytes = fs::read(&file).ok().with_context(missing)?;
        hashes.insert(SPLITTER.into(), hash(&bytes));
    }
    // In the virtual machine, capture-lab reads the rings.
    if subjects.iter().any(Subject::is_ring) {
        let file = bin_dir.join(CAPTURE_LAB);
        let missing = || format!("there is no program {}: make lab", file.display());
        let bytes = fs::read(&file).ok().with_context(missing)?;
        hashes.insert(CAPTURE_LAB.into(), hash(&bytes));
    }
    Ok(hashes)
}

/// Returns a program's path, or None if there is no such file. A name without a slash is searched in PATH.
fn in_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Returns a hash of everything that must be the same in every round. The experiment's rounds, pairs and figures may
/// change: they don't affect a sample.
fn config_hash(experiment: &Experiment, programs: &BTreeMap<String, String>, host: bool) -> String {
    let config = json!({
        "seconds": experiment.seconds,
        "warmup_seconds": experiment.warmup_seconds,
        "slice": [experiment.slices.milliseconds, experiment.slices.settle_milliseconds],
        "order": experiment.slices.order,
        "flows": experiment.flows,
        "count_syscalls": experiment.count_syscalls,
        "subjects": experiment.subjects.iter().map(Subject::name).collect::<Vec<_>>(),
        "kinds": experiment.subjects.iter().map(|subject| &subject.kind).collect::<Vec<_>>(),
        "workloads": experiment.workloads,
        "programs": programs,
        "host": host,
    });
    hash(config.to_string().as_bytes())
}

fn tool_versions(experiment: &Experiment) -> BTreeMap<String, String> {
    let mut tools = vec![
        ("iptables", "--version"),
        ("rustc", "--version"),
        ("cc", "--version"),
    ];
    if experiment
        .subjects
        .iter()
        .any(|s| s.kind == Kind::Nftables || s.is_staged())
    {
        tools.push(("nft", "--version"));
    }
    if experiment.count_syscalls {
        tools.push(("strace", "--version"));
    }
    tools
        .into_iter()
        .map(|(tool, flag)| (tool.to_string(), version_of(tool, flag)))
        .collect()
}

/// Returns the command lines of the exchanges, with COUNT in place of the number of exchanges, which each run
/// determines.
fn exchange_commands(experiment: &Experiment, cells: &[Cell], site: &Site) -> Result<Vec<String>> {
    let root = format!("{}/", site.root.display());
    let mut commands = Vec::new();
    for cell in cells {
        for subject in &experiment.subjects {
            let words = site.exchanges.words(subject, cell, 0, false)?;
            let command = words[..words.len() - 1].join(" ") + " COUNT";
            let command = command.replace(&root, "");
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    if cells.iter().any(|cell| cell.route == Route::Vm) {
        commands.push("kernel/lab LIST".into());
    }
    Ok(commands)
}

/// Placeholder for a recorder's output file, in a list of command lines.
const FILE_WORD: &str = "FILE";

/// Returns the command lines of the sender and of the ring readers or recorders, without duplicates.
fn capture_commands(experiment: &Experiment, cells: &[Cell], site: &Site) -> Result<Vec<String>> {
    let root = format!("{}/", site.root.display());
    let mut commands = Vec::new();
    for cell in cells {
        let mut add = |command: String| {
            if !commands.contains(&command) {
                commands.push(command);
            }
        };
        add(capturing::sender_words(cell, experiment.seconds));
        for subject in &experiment.subjects {
            let words = match subject.kind {
                Kind::Recorder { .. } => recording::words(site.bin_dir, subject, FILE_WORD)?,
                _ => capturing::words(site.bin_dir, subject, cell, experiment.seconds)?,
            };
            add(words.join(" ").replace(&root, ""));
        }
    }
    Ok(commands)
}

/// Returns the policies of all twins and of nftables under all loads, without duplicates.
fn policies(experiment: &Experiment, cells: &[Cell]) -> BTreeSet<SyntheticPolicy> {
    let of_cell = |cell: &Cell| {
        let of_load = cell.policy;
        let subjects = experiment.subjects.iter();
        subjects.filter_map(move |subject| match subject.kind {
            Kind::Twin { .. } | Kind::Nftables => subject.policy(of_load),
            _ => None,
        })
    };
    cells.iter().flat_map(of_cell).collect()
}

/// Returns the policies that are split between kernel and firewall for staged subjects, without duplicates.
fn staged_policies(experiment: &Experiment, cells: &[Cell]) -> Vec<SyntheticPolicy> {
    let mut policies: Vec<_> = cells.iter().filter_map(|cell| cell.policy).collect();
    policies.sort();
    policies.dedup();
    policies.retain(|_| experiment.subjects.iter().any(Subject::is_staged));
    policies
}

/// Returns the command lines of an experiment's run without duplicates. Paths are relative to the repository's root,
/// and generated files have only their names.
fn commands(experiment: &Experiment, cells: &[Cell], site: &Site) -> Result<Vec<String>> {
    let mut commands: Vec<String> = Vec::new();
    for policy in policies(experiment, cells) {
        let (kind, size) = (policy.kind.name(), policy.size);
        let file = file_name(policy);
        commands.push(format!("build/harness policy {kind} {size} >{file}"));
    }
    commands.extend(
        staged_policies(experiment, cells)
            .into_iter()
            .map(split_words),
    );
    for cell in cells {
        for subject in &experiment.subjects {
            let words = site.words(subject, cell)?;
            commands.extend(words.map(|words| words.join(" ")));
        }
        let kernel = experiment.subjects.iter().any(|s| s.kind == Kind::Nftables);
        if let Some(policy) = cell.policy.filter(|_| kernel) {
            commands.push(format!("nft -f {}", file_name(policy)));
        }
    }
    if experiment.kind == ExperimentKind::Exchange {
        return exchange_commands(experiment, cells, site);
    }
    if experiment.kind == ExperimentKind::Capture {
        return capture_commands(experiment, cells, site);
    }
    for cell in cells.iter().filter(|cell| !cell.is_sliced()) {
        let runner = (site.make_runner)(cell.runners[0])?;
        for flow in 0..site.flows(cell) {
            commands.extend(runner.command_lines(&site.load(cell, flow, experiment.seconds)));
        }
    }
    let root = format!("{}/", site.root.display());
    let mut seen = Vec::new();
    for command in commands {
        let command = site.policies.shorten(&command);
        let command = site.staged.shorten(&command).replace(&root, "");
        if !seen.contains(&command) {
            seen.push(command);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the subjects of a shipped experiment that are measured on the host, and the notes on omitted parts.
    fn on_the_host(name: &str) -> (Vec<String>, Vec<String>) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let mut experiment = Experiment::read(&folder.join(name)).unwrap();
        let notes = fit_to_host(&mut experiment).unwrap();
        let subjects = experiment.subjects.iter().map(Subject::name).collect();
        (subjects, notes)
    }

    #[test]
    fn subjects_that_would_leave_rules_on_the_host_are_left_out() {
        let (subjects, notes) = on_the_host("stage.toml");
        assert_eq!(subjects, ["none"]);
        for name in [
            "nftables-tracked",
            "stage-rust",
            "stage-rust#2",
            "stage-c",
            "squid",
            "suricata-bypass",
            "opensnitch-way",
        ] {
            let note = format!("`{name}` is left out: its rules would be the machine's own");
            assert!(notes.contains(&note), "{notes:?}");
        }
        let (subjects, notes) = on_the_host("peers.toml");
        assert_eq!(subjects[..2], ["none", "rust-raw-fast"]);
        assert!(subjects.contains(&"libnetfilter_queue".to_string()));
        let accept = "`accept` is left out: make rules has no such rule";
        assert!(notes.iter().any(|note| note == accept));
    }
}
