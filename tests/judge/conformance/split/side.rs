// SPDX-License-Identifier: GPL-2.0-or-later
//! The two sides of a comparison, each in its own cell: a twin with the whole policy, and the kernel with the split
//! policy, for which a twin reads names.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::cpu::bind_thread;
use testbed::firewall::Firewall;
use testbed::twin::Twin;
use twinwall_judge::tree::{Hook, HOOKS};

use crate::answer;
use crate::bench::is_tracked;
use crate::cell::{Cell, Seen, Shot, GROUP};
use crate::netlink::forget_connections;
use crate::ruleset;
use crate::subject::{normal, twin_counters, Counter, Outcome, Refused, STATE_BITS};

/// Tables that are not the policy's: this judge's, and those of iptables with the queue rules.
const FOREIGN_TABLES: [&str; 3] = ["certify_late", "mangle", "security"];
/// Files of a split policy: the kernel's text, the twin's policy, and the queue rules.
pub const KERNEL: &str = "kernel.nft";
pub const NAMES: &str = "names.nft";
pub const IPTABLES: &str = "iptables.rules";
/// Prefix of logged packets that belong to no connection.
const LOST: &str = "lost";
/// Prefix of logged packets that the split policy queues for their names.
const ASKED: &str = "asked";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Whole,
    Split,
}

/// A policy, whole and split.
pub struct Case<'a> {
    /// File of the whole policy.
    pub policy: &'a Path,
    pub text: &'a str,
    pub hooks: &'a [Hook],
    /// Folder with the files of the split policy.
    pub parts: &'a Path,
    /// Bits of marks that the split policy uses for names (the stage's mask). They are not compared.
    pub mask: u32,
    /// Treatment of unknown names by the whole policy.
    pub unknown: Unknown,
}

/// Options of a twin for unknown names: the values of `--fail` and `--undecided`. No twin gets another `--fail` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    fail: &'static str,
    undecided: &'static str,
}

pub const DEFAULT: Unknown = Unknown {
    fail: "crash=closed",
    undecided: "accept",
};
/// Options with which a packet is dropped if a rule reads an unknown name.
pub const STRICT: Unknown = Unknown {
    fail: "crash=closed",
    undecided: "drop",
};

/// Outcome of a run on one side.
#[derive(Default)]
pub struct Report {
    pub outcome: Outcome,
    /// Numbers of the packets that the kernel's conntrack assigned to no connection in this run.
    pub lost: BTreeSet<u32>,
    /// Numbers of the packets that the split policy queues for their names.
    pub asked: BTreeSet<u32>,
    /// The twin's last ledger (JSON).
    pub ledger: String,
}

pub struct Side {
    pub kind: Kind,
    twin: Twin,
    cell: Cell,
}

/// Returns the judge's chains before and after the policy's chains. Their table refers to conntrack, and so enables it.
/// The last chain drops packets that are delivered locally. It has the highest priority number, so that conntrack has
/// confirmed the packet's connection before.
fn late_chains() -> String {
    let passed = HOOKS.map(|hook| {
        let name = hook.text();
        format!("\tchain {name} {{\n\t\ttype filter hook {name} priority 30000;\n\t\tlog group {GROUP}\n\t}}\n")
    });
    let lost = ["prerouting", "output"].map(|name| {
        format!(
            "\tchain {LOST}_{name} {{\n\t\ttype filter hook {name} priority -190;\n\t\t\
             ct state {{ invalid, untracked }} log prefix \"{LOST}\" group {GROUP}\n\t}}\n"
        )
    });
    let end = format!(
        "\tchain end {{\n\t\ttype filter hook input priority {}; policy drop;\n\t}}\n",
        i32::MAX
    );
    format!(
        "table inet certify_late {{\n{}{}{end}}}\n",
        passed.concat(),
        lost.concat()
    )
}

/// Returns a policy's hooks, and the hooks that responses to their packets pass.
fn with_answers(hooks: &[Hook]) -> Vec<Hook> {
    let answers = hooks.iter().filter_map(|hook| match hook {
        Hook::Input | Hook::Prerouting => Some(Hook::Output),
        Hook::Output => Some(Hook::Input),
        _ => None,
    });
    let all: BTreeSet<Hook> = hooks.iter().copied().chain(answers).collect();
    all.into_iter().collect()
}

/// Changes the kernel's text of a split policy: it also logs the packets to be queued for their names, and keeps the
/// judge's chains.
fn observed(kernel: &str) -> String {
    let queue = "\tchain stage-queue {\n";
    let logged = format!("{queue}\t\tlog prefix \"{ASKED}\" group {GROUP}\n");
    kernel
        .replace(queue, &logged)
        .replacen("flush ruleset", "", 1)
}

fn file(folder: &Path, name: &str) -> anyhow::Result<String> {
    let path = folder.join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

impl Side {
    pub fn new(kind: Kind, twin: Twin) -> anyhow::Result<Side> {
        let cell = Cell::new()?;
        Ok(Side { kind, twin, cell })
    }

    pub fn name(&self) -> &'static str {
        match (self.kind, self.twin) {
            (Kind::Whole, Twin::Rust) => "whole in rust",
            (Kind::Whole, Twin::C) => "whole in c",
            (Kind::Split, Twin::Rust) => "split for rust",
            (Kind::Split, Twin::C) => "split for c",
        }
    }

    /// Binds this thread to a CPU, so that a marker frame cannot overtake a packet of its cell.
    fn bind(&self) -> anyhow::Result<()> {
        bind_thread(self.kind as usize + 2 * self.twin as usize)
    }

    /// Loads the policy and sends the packets one after the other. Returns their results. Must run in a separate
    /// thread, which it binds to a CPU.
    pub fn run(&mut self, case: &Case, shots: &[Shot]) -> anyhow::Result<Result<Report, Refused>> {
        self.bind()?;
        let name = self.name();
        let at = || format!("{name} with {}", case.policy.display());
        self.cell.nft("flush ruleset\n").with_context(at)?;
        self.cell.namespace.enter(forget_connections)?;
        // Hooks of the same priority are called in the reverse order of their registration: before any other rules
        // that use conntrack, the last chain comes after conntrack's hook, which confirms connections.
        self.cell.nft(&late_chains()).with_context(at)?;
        match self.kind {
            Kind::Whole => self.run_whole(case, shots),
            Kind::Split => self.run_split(case, shots),
        }
        .with_context(at)
    }

    /// Sends a packet without a policy. Returns its results. Must run in a separate thread, which it binds to a CPU.
    pub fn run_bare(&mut self, shot: &Shot) -> anyhow::Result<Report> {
        self.bind()?;
        self.cell.nft("flush ruleset\n")?;
        self.cell.namespace.enter(forget_connections)?;
        self.cell.nft(&late_chains())?;
        let shots = std::slice::from_ref(shot);
        Ok(report(shots, &self.cell.observe(shots, &|| true)?, 0))
    }

    fn run_whole(&self, case: &Case, shots: &[Shot]) -> anyhow::Result<Result<Report, Refused>> {
        let is_tracked = is_tracked(case.text);
        self.cell
            .queue_hooks(&with_answers(case.hooks), is_tracked, "mangle")?;
        let policy = case.policy.to_str().context("a path that is no text")?;
        let states = ["--conntrack", "mark"];
        let more = if is_tracked { &states[..] } else { &[] };
        let Unknown { fail, undecided } = case.unknown;
        let unknown = ["--fail", fail, "--undecided", undecided];
        let arguments = [&["--policy", policy][..], &unknown, more].concat();
        let mut mask = case.mask;
        if is_tracked {
            mask |= STATE_BITS;
        }
        self.observe(&arguments, shots, mask, twin_counters)
    }

    fn run_split(&self, case: &Case, shots: &[Shot]) -> anyhow::Result<Result<Report, Refused>> {
        let kernel = observed(&file(case.parts, KERNEL)?);
        if let Err(error) = self.cell.nft(&kernel) {
            return Ok(Err(Refused(format!("{error:#}"))));
        }
        // Empty with nft's queue.
        let rules = file(case.parts, IPTABLES)?;
        for tool in ["iptables-restore", "ip6tables-restore"] {
            self.cell.namespace.feed(tool, &["--noflush"], &rules)?;
        }
        let names = case.parts.join(NAMES);
        let names = names.to_str().context("a path that is no text")?;
        let mask = format!("{:#010x}", case.mask);
        let arguments = ["--policy", names, "--stage", &mask, "--fail", DEFAULT.fail];
        let namespace = &self.cell.namespace;
        self.observe(&arguments, shots, case.mask, |_| {
            let counted = namespace.enter(|| ruleset::counters(&FOREIGN_TABLES))?;
            Ok((counted, Vec::new()))
        })
    }

    /// Runs the twin while the packets are sent.
    /// - mask: bits of marks that are not compared.
    /// - counters: returns the policy's counters and their rules; its argument is the twin's last ledger.
    fn observe(
        &self,
        arguments: &[&str],
        shots: &[Shot],
        mask: u32,
        counters: impl FnOnce(&Value) -> anyhow::Result<(Vec<Counter>, Vec<String>)>,
    ) -> anyhow::Result<Result<Report, Refused>> {
        // No guard answers in the twin's place, even on a busy machine.
        let own = [
            ["--malformed", "policy"],
            ["--queue", "0"],
            ["--user", "root"],
            ["--deadline", "0"],
        ];
        let own = own.concat();
        let arguments = [arguments, &own].concat();
        let firewall = match Firewall::start(&self.cell.namespace, self.twin, &arguments) {
            Ok(firewall) => firewall,
            Err(error) => return Ok(Err(Refused(format!("{error:#}")))),
        };
        let seen = self.cell.observe(shots, &firewall.idle_test()?)?;
        let ended = firewall.end_by(libc::SIGTERM)?;
        ensure!(
            ended.code == Some(0),
            "it ended with code {:?}, signal {:?}: {}",
            ended.code,
            ended.signal,
            ended.stderr
        );
        let mut report = report(shots, &seen, mask);
        report.ledger = ended.lines.last().context("no ledger")?.clone();
        let ledger = serde_json::from_str(&report.ledger)?;
        (report.outcome.counters, report.outcome.counter_rules) = counters(&ledger)?;
        Ok(Ok(report))
    }
}

/// Collects the results of each packet.
/// - mask: bits of marks that are not compared.
fn report(shots: &[Shot], seen: &[Seen], mask: u32) -> Report {
    let mut report = Report::default();
    for (shot, seen) in shots.iter().zip(seen) {
        let own = normal(&shot.bytes);
        for logged in seen.logged.iter().filter(|one| normal(&one.packet) == own) {
            if logged.prefix == LOST.as_bytes() {
                report.lost.insert(shot.number);
            } else if logged.prefix == ASKED.as_bytes() {
                report.asked.insert(shot.number);
            } else if let Some(hook) = Hook::from_number(logged.hook) {
                let passed = report.outcome.passed.entry(shot.number).or_default();
                passed.push((hook, logged.mark & !mask));
            }
        }
        let left = seen.left.iter().filter(|packet| normal(packet) != own);
        let answers: Vec<_> = left.filter_map(|packet| answer::of(packet)).collect();
        if !answers.is_empty() {
            report.outcome.answers.insert(shot.number, answers);
        }
    }
    report
}
