// SPDX-License-Identifier: GPL-2.0-or-later
//! The JSON reports of a firewall. Additional keys are errors, and missing keys of fields that are no `Option`.

use std::collections::BTreeMap;

use anyhow::{ensure, Context};
use serde::{Deserialize, Deserializer};

/// The object that a firewall prints at its start with --json.
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
    // The next four fields are present only with a policy.
    pub malformed: Option<String>,
    pub conntrack: Option<String>,
    pub policy: Option<String>,
    pub requirement: Option<Requirement>,
    pub contract: Vec<Situation>,
}

/// A line of the failure contract: `mode` was requested for a situation, `really` is its effect.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub situation: String,
    pub mode: String,
    pub really: String,
}

/// Requirements of a policy: the packet data that it reads, and the effects that it has (`learns`, `reject`).
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

/// A ledger line of --json: the ledger of each queue, their sum, and the counts of the policy.
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

/// Counts of a policy over all queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub file: String,
    pub counters: Vec<Counter>,
    pub logs: Vec<Log>,
}

/// Counts of the replies of `reject`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Replies {
    pub sent: u64,
    pub not_due: u64,
    pub failed: u64,
}

/// A counter statement of a policy, with its counts; rule is "FILE:LINE".
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub rule: String,
    pub statement: u32,
    pub packets: u64,
    pub bytes: u64,
}

/// A log statement of a policy, with its number of packets; rule is "FILE:LINE".
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub rule: String,
    pub statement: u32,
    pub packets: u64,
}

/// The ledger of a queue, or the sum of all queues.
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
    pub undecidable: u64,
    pub undecided: u64,
    pub without_ct_state: u64,
    /// Packets returned to the kernel with a checksum that it had not written yet.
    pub restated: u64,
    pub replies: Replies,
    /// Numbers of connections that were followed for their names, by result: `tls`, `quic`, `evicted` and so on.
    pub connections: BTreeMap<String, u64>,
    /// Numbers of DNS answers, by result: `learned`, `empty`, `other`, `unasked`, `unreadable`.
    pub answers: BTreeMap<String, u64>,
    /// Numbers of learned addresses that were sent to the kernel's sets, by result: `added`, `failed`.
    pub elements: BTreeMap<String, u64>,
    pub stalled: u64,
    /// The kernel's figures of the queue; zeros if the firewall can't read them.
    #[serde(deserialize_with = "known_or_zero")]
    pub kernel: Kernel,
    #[serde(deserialize_with = "known_or_zero")]
    pub lost: u64,
    pub difference: u64,
    pub reconciled: bool,
}

/// Deserializes a member that is null if the firewall can't read the kernel's figures; null becomes the default.
fn known_or_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The kernel's figures of a queue.
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
    /// Parses a ledger line of --json. The error for any other line contains that line.
    pub fn parse(line: &str) -> anyhow::Result<Stats> {
        let stats: Stats =
            serde_json::from_str(line).with_context(|| format!("a ledger line: {line}"))?;
        ensure!(stats.event == "stats", "event {}", stats.event);
        Ok(stats)
    }
}

impl Ledger {
    /// Returns the number of packets with the verdict `name`.
    ///
    /// # Panics
    /// If there is no verdict of that name.
    pub fn verdict(&self, name: &str) -> u64 {
        self.verdicts[name]
    }

    /// Returns the number of packets with any verdict.
    pub fn verdict_sum(&self) -> u64 {
        self.verdicts.values().sum()
    }

    /// Returns the numbers of malformed packets by reason, without zeros.
    pub fn malformed_reasons(&self) -> BTreeMap<&str, u64> {
        let counted = self.malformed.iter().filter(|(_, count)| **count > 0);
        counted
            .map(|(name, count)| (name.as_str(), *count))
            .collect()
    }

    /// Checks the invariants of an idle firewall's ledger: every received packet has a verdict, all packets of the
    /// kernel's count are accounted for, and the firewall's own check agrees.
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
        // The kernel may have assigned ids to packets for which its queue was full.
        ensure!(
            (accounted..=accounted + kernel.queue_full).contains(&kernel.offered),
            "offered {} != accounted {accounted}: {self:?}",
            kernel.offered
        );
        Ok(())
    }

    /// Checks the invariants of `check_reconciled`, and that no packet was lost, unseen, truncated or malformed, or
    /// waits for a verdict, that the kernel refused no verdict, and that the firewall counted no gaps or overruns.
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
