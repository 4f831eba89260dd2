// SPDX-License-Identifier: GPL-2.0-or-later
//! The JSON reports of a firewall. A key too many or too few is an error.

use std::collections::BTreeMap;

use anyhow::{ensure, Context};
use serde::{Deserialize, Deserializer};

/// The start line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    pub event: String,
    pub program: String,
    pub version: String,
    pub time_ms: u64,
    pub queues: Vec<u16>,
    pub backend: String,
    pub profile: String,
    pub copy_bytes: u32,
    pub batch: u32,
    pub receive_buffer: u32,
    pub queue_length: u32,
    pub gso: bool,
    pub spin_us: Option<u32>,
    pub coalesce_us: u32,
    pub fail: String,
    pub deadline_ms: u32,
    #[serde(rename = "default")]
    pub default_verdict: String,
    // Only with a policy.
    pub malformed: Option<String>,
    pub conntrack: Option<String>,
    pub policy: Option<String>,
    pub requirement: Option<Requirement>,
    pub contract: Vec<Situation>,
}

/// What will happen when something fails.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub situation: String,
    pub mode: String,
    pub really: String,
}

/// What a policy reads and does.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub copy_bytes: u32,
    pub layer4: bool,
    pub uid_gid: bool,
    pub conntrack_state: bool,
    pub conntrack_mark: bool,
    pub interface_names: bool,
    pub names: bool,
    pub learns: bool,
    pub reject: bool,
}

/// A ledger line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    pub event: String,
    pub program: String,
    pub time_ms: u64,
    pub reason: String,
    pub queues: Vec<Ledger>,
    pub total: Ledger,
    pub reconciled: bool,
    pub policy: Option<Policy>,
}

/// What a policy did in all queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub file: String,
    pub undecidable: u64,
    pub undecided: u64,
    pub without_ct_state: u64,
    pub replies: Replies,
    pub counters: Vec<Counter>,
    pub logs: Vec<Log>,
}

/// The replies of `reject`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Replies {
    pub sent: u64,
    pub not_due: u64,
    pub failed: u64,
}

/// A counter statement; rule is "FILE:LINE".
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub rule: String,
    pub statement: u32,
    pub packets: u64,
    pub bytes: u64,
}

/// A log statement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub rule: String,
    pub statement: u32,
    pub packets: u64,
}

/// The ledger of a queue, or the sum of all.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    pub queue: Option<u16>,
    pub received: u64,
    pub bytes: u64,
    pub verdicts: BTreeMap<String, u64>,
    pub refused: u64,
    pub malformed: BTreeMap<String, u64>,
    pub beyond_copy: u64,
    pub truncated: u64,
    pub without_id: u64,
    pub gaps: u64,
    pub overruns: u64,
    pub send_retries: u64,
    pub stalled: u64,
    /// Zeros if they are not known.
    #[serde(deserialize_with = "known_or_zero")]
    pub kernel: Kernel,
    #[serde(deserialize_with = "known_or_zero")]
    pub lost: u64,
    pub difference: u64,
    pub reconciled: bool,
}

/// The members that are null where the firewall can't read the kernel's figures.
fn known_or_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The kernel's own figures of a queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    pub offered: u64,
    pub waiting: u64,
    pub queue_full: u64,
    pub user_drop: u64,
    pub unseen: u64,
}

impl Stats {
    /// Reads a line of --json. Fails with the line if it is no ledger.
    pub fn parse(line: &str) -> anyhow::Result<Stats> {
        let stats: Stats =
            serde_json::from_str(line).with_context(|| format!("a ledger line: {line}"))?;
        ensure!(stats.event == "stats", "event {}", stats.event);
        Ok(stats)
    }
}

impl Ledger {
    /// Packets with a verdict, by its name.
    ///
    /// # Panics
    /// If there is no verdict of that name.
    pub fn verdict(&self, name: &str) -> u64 {
        self.verdicts[name]
    }

    /// Packets with any verdict.
    pub fn verdict_sum(&self) -> u64 {
        self.verdicts.values().sum()
    }

    /// The malformed packets by reason, without the zeros.
    pub fn malformed_reasons(&self) -> BTreeMap<&str, u64> {
        let counted = self.malformed.iter().filter(|(_, count)| **count > 0);
        counted
            .map(|(name, count)| (name.as_str(), *count))
            .collect()
    }

    /// Checks what must hold for every ledger of a firewall that is at rest: all taken packets have their verdict,
    /// the kernel's count is accounted for, and the firewall's own arithmetic says the same.
    pub fn check_reconciled(&self) -> anyhow::Result<()> {
        let kernel = &self.kernel;
        ensure!(
            self.received == self.verdict_sum(),
            "received is not the sum of the verdicts: {self:?}"
        );
        ensure!(
            self.reconciled && self.difference == 0,
            "not reconciled: difference {}, stalled {}, {kernel:?}: {self:?}",
            self.difference,
            self.stalled
        );
        ensure!(
            self.lost == kernel.queue_full + kernel.user_drop,
            "lost: {self:?}"
        );
        let accounted =
            self.received + self.without_id + kernel.user_drop + kernel.waiting + kernel.unseen;
        // The kernel may have given ids to packets for which its queue was full.
        ensure!(
            (accounted..=accounted + kernel.queue_full).contains(&kernel.offered),
            "offered {} != accounted {accounted}: {self:?}",
            kernel.offered
        );
        Ok(())
    }

    /// The same, and nothing was lost or odd.
    pub fn check_clean(&self) -> anyhow::Result<()> {
        self.check_reconciled()?;
        let odd = self.lost
            + self.kernel.unseen
            + self.kernel.waiting
            + self.refused
            + self.truncated
            + self.gaps
            + self.overruns;
        ensure!(odd == 0, "something was lost or refused: {self:?}");
        ensure!(self.malformed_reasons().is_empty(), "malformed: {self:?}");
        Ok(())
    }
}
