// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses an experiment's text and checks that its parts are consistent.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{
    in_range, not_empty, Claim, Experiment, ExperimentKind, Figure, FigureKind, Pair, Reference,
    Route, RunnerName, WorkloadPlan, LARGEST_DATAGRAM_BYTES,
};
use crate::experiment::Slices;
use crate::runner::Workload;
use crate::subject::{Kind, Subject, UNFILTERED};
use crate::synthetic::{SyntheticKind, SyntheticPolicy};

/// Structure of an experiment's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    title: String,
    question: String,
    long: Option<String>,
    #[serde(default)]
    kind: ExperimentKind,
    #[serde(default, deserialize_with = "some_in_range::<_, 1, 1000>")]
    rounds: Option<u32>,
    #[serde(default, deserialize_with = "some_in_range::<_, 0, 3600>")]
    warmup_seconds: Option<u32>,
    #[serde(default, deserialize_with = "some_in_range::<_, 1, 3600>")]
    seconds: Option<u32>,
    slices: Option<Spanned<Slices>>,
    #[serde(default)]
    count_syscalls: bool,
    subjects: Vec<Spanned<Subject>>,
    #[serde(default = "one_queue", deserialize_with = "not_empty")]
    queues: Vec<Spanned<u16>>,
    baseline: Option<Spanned<String>>,
    #[serde(default)]
    peer: Vec<Spanned<Peer>>,
    #[serde(default)]
    variant: Vec<Spanned<Variant>>,
    workload: Vec<Spanned<WorkloadPlan>>,
    #[serde(default)]
    compare: Vec<Spanned<Pair>>,
    #[serde(default)]
    claim: Vec<Spanned<Claim>>,
    #[serde(default)]
    figure: Vec<Spanned<Figure>>,
    #[serde(default)]
    reference: Vec<Spanned<Reference>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    name: String,
    command: String,
    /// True if the subject is omitted where its program is not installed.
    #[serde(default)]
    optional: bool,
    /// Rules that replace those of the load: a file below the repository's root. None: the load's rules.
    rules: Option<PathBuf>,
    /// Further programs without which the subject is omitted, if it is optional.
    #[serde(default)]
    needs: Vec<PathBuf>,
}

/// A twin with further options, or with a policy that replaces the load's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    of: Subject,
    #[serde(default)]
    options: Vec<String>,
    policy: Option<SyntheticPolicy>,
    /// Number of identical subjects, the original included, measured as if they were different: they show the machine's
    /// own variation.
    #[serde(default = "one_copy")]
    copies: u16,
}

fn one_copy() -> u16 {
    1
}

fn one_queue() -> Vec<Spanned<u16>> {
    vec![Spanned::new(0..0, 1)]
}

/// Deserializes an optional whole number and checks its range.
pub(super) fn some_in_range<'de, D: Deserializer<'de>, const LOW: u32, const HIGH: u32>(
    from: D,
) -> Result<Option<u32>, D::Error> {
    in_range::<D, LOW, HIGH>(from).map(Some)
}

/// An error at a position (a byte range of the file).
pub(super) struct Refusal {
    pub place: Range<usize>,
    pub words: String,
}

fn refuse<T>(place: Range<usize>, words: String) -> Result<T, Refusal> {
    Err(Refusal { place, words })
}

impl Experiment {
    /// Parses and checks an experiment's file.
    pub fn read(file: &Path) -> anyhow::Result<Experiment> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Experiment::parse(&name, &text).map_err(|refusal| {
            let (line, column) = line_and_column(&text, refusal.place.start);
            anyhow!("{}:{line}:{column}: {}", file.display(), refusal.words)
        })
    }

    pub(super) fn parse(name: &str, text: &str) -> Result<Experiment, Refusal> {
        let text: Text = toml::from_str(text).map_err(|error| Refusal {
            place: error.span().unwrap_or_default(),
            words: error.message().to_string(),
        })?;
        let experiment = Experiment {
            name: name.into(),
            title: text.title.clone(),
            question: text.question.clone(),
            long: text.long.clone(),
            kind: text.kind,
            rounds: text.rounds.unwrap_or(0),
            warmup_seconds: text.warmup_seconds.unwrap_or(0),
            seconds: text.seconds.unwrap_or(0),
            slices: text
                .slices
                .as_ref()
                .map_or(Slices::default(), |s| s.get_ref().clone()),
            baseline: text
                .baseline
                .as_ref()
                .map_or(UNFILTERED.into(), |b| b.get_ref().clone()),
            subjects: expand_subjects(&text)?,
            flows: text
                .queues
                .iter()
                .map(|queues| *queues.get_ref())
                .max()
                .unwrap_or(1),
            workloads: text.workload.iter().map(|w| w.get_ref().clone()).collect(),
            compare: text.compare.iter().map(|p| p.get_ref().clone()).collect(),
            claims: text.claim.iter().map(|c| c.get_ref().clone()).collect(),
            figures: text.figure.iter().map(|f| f.get_ref().clone()).collect(),
            references: text.reference.iter().map(|r| r.get_ref().clone()).collect(),
            count_syscalls: text.count_syscalls,
        };
        experiment.check(&text)?;
        Ok(experiment)
    }

    /// Checks the consistency between parts of the file.
    fn check(&self, text: &Text) -> Result<(), Refusal> {
        if self.kind == ExperimentKind::Scan {
            return refuse(
                0..0,
                "scanners are measured by make bench-scanner, not by a file".into(),
            );
        }
        if let Some(baseline) = &text.baseline {
            self.known_subject(baseline.get_ref(), baseline.span())?;
        }
        for pair in &text.compare {
            self.known_subject(&pair.get_ref().a, pair.span())?;
            self.known_subject(&pair.get_ref().b, pair.span())?;
        }
        for claim in &text.claim {
            self.check_claim(claim)?;
        }
        for workload in &text.workload {
            self.check_kind(workload)?;
            check_workload(workload, self.flows)?;
            self.check_rules(workload)?;
            self.check_names(workload)?;
        }
        self.check_times(text)?;
        if self.workloads.is_empty() {
            return refuse(
                0..0,
                "there is no [[workload]]: expected at least one".into(),
            );
        }
        for figure in &text.figure {
            let asked = figure.get_ref();
            if asked.kind == FigureKind::Growth && asked.policy.is_none() {
                let words = format!(
                    "figure {:?}: growth is over the sizes of a policy",
                    asked.name
                );
                return refuse(figure.span(), words);
            }
            let there = |w: &WorkloadPlan| {
                let policy = w.policy.as_ref().map(|policy| policy.kind);
                w.name == asked.workload && w.path.contains(&asked.path) && policy == asked.policy
            };
            if !self.workloads.iter().any(there) {
                let words = format!(
                    "figure {:?}: no [[workload]] has that name, path and policy",
                    asked.name
                );
                return refuse(figure.span(), words);
            }
        }
        for reference in &text.reference {
            let asked = reference.get_ref();
            if !self.workloads.iter().any(|w| w.name == asked.workload) {
                let words = format!("reference {:?}: no [[workload]] has that name", asked.label);
                return refuse(reference.span(), words);
            }
        }
        Ok(())
    }

    /// Checks that `rounds`, `warmup_seconds` and `seconds` are present exactly if some load may be made without
    /// slices, and that the section `[slices]` is absent if no load may be made in slices.
    fn check_times(&self, text: &Text) -> Result<(), Refusal> {
        let times = [
            ("rounds", text.rounds),
            ("warmup_seconds", text.warmup_seconds),
            ("seconds", text.seconds),
        ];
        let in_rounds = !self.workloads.iter().all(WorkloadPlan::only_sliced);
        for (name, given) in times {
            if given.is_some() != in_rounds {
                let words = match in_rounds {
                    true => format!("missing field `{name}`: not all loads are in slices"),
                    false => format!("`{name}`: all loads are in slices, which [slices] is about"),
                };
                return refuse(0..0, words);
            }
        }
        let sliced =
            |w: &WorkloadPlan| w.runner.contains(&RunnerName::Builtin) && w.name.is_traffic();
        match &text.slices {
            Some(slices) if !self.workloads.iter().any(sliced) => {
                let words = "no load is in slices: runner = [\"builtin\"] makes such";
                refuse(slices.span(), words.into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that an experiment of exchanges has only exchanges as loads, an experiment of captures only frames, and
    /// any other neither. Checks that the routes and the subjects fit the loads.
    fn check_kind(&self, workload: &Spanned<WorkloadPlan>) -> Result<(), Refusal> {
        let exchange = self.kind == ExperimentKind::Exchange;
        let plan = workload.get_ref();
        let here = |route: &Route| matches!(route, Route::Host | Route::Vm);
        if plan.name.is_exchange() != exchange || plan.path.iter().any(|p| here(p) != exchange) {
            let words = format!(
                "{} over {}: an experiment of kind \"exchange\", and only such, has exchanges, over host and vm",
                plan.name, plan.path[0]
            );
            return refuse(workload.span(), words);
        }
        let packet = plan.name == Workload::Packet;
        if packet && plan.path != [Route::Vm] {
            let words = format!(
                "{} over {}: its rings are those of a module, over vm",
                plan.name, plan.path[0]
            );
            return refuse(workload.span(), words);
        }
        let stranger = |subject: &&Subject| {
            matches!(subject.kind, Kind::Exchange) != exchange
                || subject.is_ring() != packet
                || subject.is_way() != plan.name.is_commands()
        };
        let capture = self.kind == ExperimentKind::Capture;
        if plan.name.is_frames() != capture || capture && plan.path != [Route::Veth] {
            let words = format!(
                "{} over {}: an experiment of kind \"capture\", and only such, has frames, over veth",
                plan.name, plan.path[0]
            );
            return refuse(workload.span(), words);
        }
        let no_reader = |subject: &&Subject| match subject.kind {
            Kind::Capture { .. } => !capture || plan.name.is_recorded(),
            Kind::Recorder { .. } => !plan.name.is_recorded(),
            _ => capture,
        };
        let mut strangers = self.subjects.iter();
        match strangers.find(|subject| stranger(subject) || no_reader(subject)) {
            None => Ok(()),
            Some(subject) => {
                let words = format!("{subject} can't be a subject of this kind of experiment");
                refuse(workload.span(), words)
            }
        }
    }

    /// Refuses a policy with names if the kernel's own filter (nftables) is a subject.
    fn check_names(&self, workload: &Spanned<WorkloadPlan>) -> Result<(), Refusal> {
        let policy = workload.get_ref().policy.as_ref();
        let has_names = policy.is_some_and(|policy| policy.kind == SyntheticKind::Names);
        let mut subjects = self.subjects.iter();
        match has_names && subjects.any(|subject| subject.kind == Kind::Nftables) {
            true => refuse(workload.span(), "policy: nftables has no names".into()),
            false => Ok(()),
        }
    }

    /// Checks that each subject has rules for the load. The rules of rules/queue filter both directions over loopback
    /// only, and no forwarded packets. Staged subjects derive their rules from the load's policy, so the load needs a
    /// policy.
    fn check_rules(&self, workload: &Spanned<WorkloadPlan>) -> Result<(), Refusal> {
        let plan = workload.get_ref();
        let route = |route: &Route| match route {
            Route::Loopback => false,
            Route::Forwarded => true,
            _ => plan.name.shows_names(),
        };
        let own = |subject: &Subject| subject.has_rules_of_load() || subject.kind == Kind::Nftables;
        if let (true, Some(subject)) = (
            plan.path.iter().any(route),
            self.subjects.iter().find(|subject| own(subject)),
        ) {
            let words = format!("{}: expected loopback only with {subject}", plan.name);
            return refuse(workload.span(), words);
        }
        match plan.policy.is_none() && self.subjects.iter().any(Subject::is_staged) {
            true => refuse(
                workload.span(),
                format!("{}: missing field `policy`", plan.name),
            ),
            false => Ok(()),
        }
    }

    fn check_claim(&self, claim: &Spanned<Claim>) -> Result<(), Refusal> {
        let asked = claim.get_ref();
        self.known_subject(&asked.subject, claim.span())?;
        let there = |size| {
            let policy = Some(SyntheticPolicy {
                kind: asked.policy,
                size,
            });
            self.workloads
                .iter()
                .any(|w| w.policies().contains(&policy))
        };
        for size in [asked.from, asked.to] {
            if !there(size) {
                let words = format!("no [[workload]] has {} in size {size}", asked.policy.name());
                return refuse(claim.span(), words);
            }
        }
        Ok(())
    }

    fn known_subject(&self, name: &str, place: Range<usize>) -> Result<(), Refusal> {
        if self.subjects.iter().any(|subject| subject.name() == name) {
            return Ok(());
        }
        let names: Vec<String> = self.subjects.iter().map(Subject::name).collect();
        refuse(
            place,
            format!(
                "there is no subject {name:?} here: expected one of {}",
                names.join(", ")
            ),
        )
    }
}

fn expand_subjects(text: &Text) -> Result<Vec<Subject>, Refusal> {
    let mut subjects: Vec<Subject> = Vec::new();
    let mut push = |subject: Subject, place| {
        if subjects.contains(&subject) {
            return refuse(
                place,
                format!("{subject} is named twice: a second copy is {subject}#2"),
            );
        }
        subjects.push(subject);
        Ok(())
    };
    for subject in &text.subjects {
        for queues in &text.queues {
            let count = *queues.get_ref();
            if !(1..=16).contains(&count) {
                return refuse(queues.span(), format!("queues {count}: expected 1 to 16"));
            }
            if matches!(subject.get_ref().kind, Kind::Twin { .. }) {
                push(subject.get_ref().with_queues(count), subject.span())?;
            }
        }
        if !matches!(subject.get_ref().kind, Kind::Twin { .. }) {
            push(subject.get_ref().clone(), subject.span())?;
        }
    }
    for peer in &text.peer {
        let Peer {
            name,
            command,
            optional,
            rules,
            needs,
        } = peer.get_ref();
        let at = |words| Refusal {
            place: peer.span(),
            words,
        };
        let subject = Subject::peer(name, command, *optional)
            .map_err(at)?
            .with_rules(rules.clone(), needs);
        push(subject, peer.span())?;
    }
    for variant in &text.variant {
        let Variant {
            name,
            of,
            options,
            policy,
            copies,
        } = variant.get_ref();
        let at = |words| Refusal {
            place: variant.span(),
            words,
        };
        let subject = Subject::variant(name, of, options, *policy).map_err(at)?;
        for copy in 1..=*copies {
            push(subject.with_copy(copy), variant.span())?;
        }
    }
    Ok(subjects)
}

fn check_workload(workload: &Spanned<WorkloadPlan>, flows: u16) -> Result<(), Refusal> {
    let plan = workload.get_ref();
    let (allowed, expected) = match plan.name {
        Workload::UdpFlood => (1..=LARGEST_DATAGRAM_BYTES, "1 to 65507"),
        // A tcp-probe sends no data: the client closes its connections as soon as they are established.
        Workload::TcpProbe => (0..=0, "0"),
        Workload::Packet => (60..=1514, "60 to 1514"),
        name if name.is_exchange() => (0..=1 << 20, "0 to 1048576"),
        Workload::Frames | Workload::FramesNeighbour | Workload::FramesFile => {
            (700..=1500, "700 to 1500")
        }
        Workload::FramesFilePaced => (60..=1514, "60 to 1514"),
        Workload::FramesDelayed => (0..=10_000, "0 to 10000"),
        _ => (1..=1 << 20, "1 to 1048576"),
    };
    if plan.rounds.is_some() && plan.path != [Route::Vm] {
        let words = "rounds: only exchanges over vm alone have their own";
        return refuse(workload.span(), words.into());
    }
    if let Some(bytes) = plan.payload_bytes.iter().find(|n| !allowed.contains(*n)) {
        return refuse(
            workload.span(),
            format!(
                "payload_bytes {bytes} of {}: expected {expected}",
                plan.name
            ),
        );
    }
    for policy in plan.policies().into_iter().flatten() {
        if let Err(words) = policy.check() {
            return refuse(workload.span(), format!("policy sizes: {words}"));
        }
    }
    let spread = match plan.name {
        Workload::UdpFlood => plan.path == [Route::Loopback],
        Workload::TcpProbe => true,
        _ => false,
    };
    if flows > 1 && !spread {
        let words = "several queues: expected tcp-probe, or udp-flood over loopback only";
        return refuse(workload.span(), words.into());
    }
    Ok(())
}

/// Returns line and column of a byte offset in a text, counted from 1; the column is in bytes.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count()
        + 1;
    (line, column)
}
