// SPDX-License-Identifier: GPL-2.0-or-later
//! A subject decides packets in its own cell: the kernel's nf_tables, or a twin on NFQUEUE. Its outcome is the result
//! of each packet.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::Firewall;
use testbed::twin::Twin;
use twinwall_judge::tree::Hook;

use crate::answer::{self, Answer};
use crate::cell::{late_chains, Cell, Seen, Shot};
use crate::ruleset;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Kernel,
    Twin(Twin),
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::Kernel => "kernel",
            Who::Twin(twin) => twin.name(),
        }
    }
}

/// Results of the packets of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Hooks that each packet passed, with its mark at that time, by packet number.
    pub passed: HashMap<u32, Vec<(Hook, u32)>>,
    /// Reject responses, by packet number.
    pub answers: HashMap<u32, Vec<Answer>>,
    /// Packets and bytes of the counters, in the order of the policy's text.
    pub counters: Vec<(u64, u64)>,
    /// Number of packets that a twin could not decide.
    pub undecidable: u64,
    /// The rule of each counter, `FILE:LINE`; only for a twin.
    pub counter_rules: Vec<String>,
}

pub struct Subject {
    pub who: Who,
    cell: Cell,
    /// Hooks whose packets go to the queue; None before they are set.
    queued: Option<Vec<Hook>>,
    /// True if the twin receives connection states.
    tracked: bool,
}

/// Settings of a twin in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// --copy-bytes; None means the default.
    pub copy_bytes: Option<u32>,
    /// True if --fail truncated=open is set.
    pub open: bool,
}

/// Message of a subject that refused a policy.
pub struct Refused(pub String);

impl Subject {
    /// Creates a subject.
    /// - tracked: enables connection tracking, which remembers connections and reassembles fragments.
    pub fn new(who: Who, tracked: bool) -> anyhow::Result<Subject> {
        let cell = Cell::new().with_context(|| format!("the cell of {}", who.name()))?;
        if who != Who::Kernel {
            cell.nft(&late_chains(false))?;
        }
        Ok(Subject {
            who,
            cell,
            queued: None,
            tracked,
        })
    }

    /// Loads a policy, sends the packets, and returns their results.
    pub fn run(
        &mut self,
        policy: &Path,
        hooks: &[Hook],
        shots: &[Shot],
        told: Told,
    ) -> anyhow::Result<Result<Outcome, Refused>> {
        match self.who {
            Who::Kernel => self.run_kernel(policy, shots),
            Who::Twin(twin) => self.run_twin(twin, policy, hooks, shots, told),
        }
        .with_context(|| format!("{} with {}", self.who.name(), policy.display()))
    }

    fn run_kernel(
        &mut self,
        policy: &Path,
        shots: &[Shot],
    ) -> anyhow::Result<Result<Outcome, Refused>> {
        self.cell.nft("flush ruleset\n")?;
        // nft searches includes in the folders of -I, not beside the file.
        let folder = policy.parent().context("a file has a folder")?;
        let mut command = self.cell.namespace.command("nft");
        command
            .arg("-I")
            .arg(folder)
            .arg("-I")
            .arg(folder.join("parts"));
        let output = command.arg("-f").arg(policy).output()?;
        if !output.status.success() {
            return Ok(Err(Refused(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )));
        }
        self.cell.nft(&late_chains(self.tracked))?;
        // Without a queue, the kernel decides within the calls that send packets.
        let is_idle = || true;
        self.cell.send(shots, false, &is_idle)?;
        let seen = self.cell.settle(&is_idle)?;
        let mut outcome = outcome(shots, &seen, self.tracked);
        outcome.counters = self
            .cell
            .namespace
            .enter(|| ruleset::counters(&["certify_late"]))?;
        Ok(Ok(outcome))
    }

    fn run_twin(
        &mut self,
        twin: Twin,
        policy: &Path,
        hooks: &[Hook],
        shots: &[Shot],
        told: Told,
    ) -> anyhow::Result<Result<Outcome, Refused>> {
        if self.queued.as_deref() != Some(hooks) {
            let before = if self.tracked { "mangle" } else { "raw" };
            self.cell.queue_hooks(hooks, self.tracked, before)?;
            self.queued = Some(hooks.to_vec());
        }
        let path = policy.to_str().context("a path that is no text")?;
        let copied = told.copy_bytes.map(|bytes| bytes.to_string());
        // The twin runs as root, since the file may be unreadable for other users, which would cause a warning.
        let mut arguments = vec!["--policy", path, "--malformed", "policy"];
        // No guard answers in the twin's place, even on a busy machine.
        arguments.extend(["--queue", "0", "--user", "root", "--deadline", "0"]);
        if self.tracked {
            arguments.extend(["--conntrack", "mark"]);
        }
        if let Some(bytes) = &copied {
            arguments.extend(["--copy-bytes", bytes]);
        }
        if told.open {
            arguments.extend(["--fail", "truncated=open"]);
        }
        let firewall = match Firewall::start(&self.cell.namespace, twin, &arguments) {
            Ok(firewall) => firewall,
            Err(error) => return Ok(Err(Refused(format!("{error:#}")))),
        };
        // Limits depend on the order of the packets.
        let text = fs::read_to_string(policy)?;
        let one_by_one = text.contains("limit") || text.contains("quota");
        let is_idle = firewall.idle_test()?;
        self.cell.send(shots, one_by_one, &is_idle)?;
        let seen = self.cell.settle(&is_idle)?;
        let ended = firewall.end_by(libc::SIGTERM)?;
        ensure!(
            ended.code == Some(0) && ended.stderr.is_empty(),
            "it ended with code {:?}, signal {:?}: {}",
            ended.code,
            ended.signal,
            ended.stderr
        );
        let ledger: Value = serde_json::from_str(ended.lines.last().context("no ledger")?)?;
        let mut outcome = outcome(shots, &seen, self.tracked);
        (outcome.counters, outcome.counter_rules) = twin_counters(&ledger)?;
        outcome.undecidable = ledger["total"]["undecidable"]
            .as_u64()
            .context("a ledger that does not say what was undecidable")?;
        Ok(Ok(outcome))
    }
}

/// Returns a packet with zeros in the fields that change on its way through the cell: hop limit; in IPv4 also the
/// checksum and the total length, which a raw socket fills in.
pub fn normal(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            packet[2..4].fill(0);
            packet[8] = 0;
            packet[10..12].fill(0);
        }
        Some(6) if packet.len() >= 40 => packet[7] = 0,
        _ => {}
    }
    packet
}

/// Bits of a mark that contain the connection state.
pub const STATE_BITS: u32 = 0x4f00_0000;

/// Collects the results of the packets.
/// - tracked: removes the connection state that the mark may still contain for the twin, and ignores responses.
fn outcome(shots: &[Shot], seen: &Seen, tracked: bool) -> Outcome {
    let known: HashMap<Vec<u8>, u32> = shots
        .iter()
        .map(|shot| (normal(&shot.bytes), shot.number))
        .collect();
    let mut outcome = Outcome::default();
    for logged in &seen.logged {
        let (Some(number), Some(hook)) = (
            known.get(&normal(&logged.packet)),
            Hook::from_number(logged.hook),
        ) else {
            continue;
        };
        let mark = if tracked {
            logged.mark & !STATE_BITS
        } else {
            logged.mark
        };
        outcome
            .passed
            .entry(*number)
            .or_default()
            .push((hook, mark));
    }
    for packet in &seen.left {
        if known.contains_key(&normal(packet)) {
            continue;
        }
        // Responses are ignored with tracking: errors of the stack itself then depend on the connection that was
        // tracked first.
        let answer = answer::read(packet, shots).filter(|_| !tracked);
        if let Some((number, answer)) = answer {
            outcome.answers.entry(number).or_default().push(answer);
        }
    }
    outcome
}

/// Packets and bytes of a counter.
pub type Counter = (u64, u64);

/// Returns the counters of the last ledger, and their rules.
pub fn twin_counters(ledger: &Value) -> anyhow::Result<(Vec<Counter>, Vec<String>)> {
    let listed = ledger["policy"]["counters"]
        .as_array()
        .context("a ledger without counters")?;
    listed
        .iter()
        .map(|counter| {
            let number = |key: &str| {
                counter[key]
                    .as_u64()
                    .with_context(|| format!("a counter: {counter}"))
            };
            let rule = counter["rule"].as_str().context("a counter's rule")?;
            Ok(((number("packets")?, number("bytes")?), rule.to_string()))
        })
        .collect()
}
