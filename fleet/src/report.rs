// SPDX-License-Identifier: GPL-2.0-or-later
//! A host's report, which its agent writes to `hosts/ID`.

use serde::{Deserialize, Serialize};

/// How far a host has come with a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It has no policy of the fleet.
    #[default]
    None,
    /// It has begun to apply it.
    Started,
    /// It is loaded, and waits for its confirmation.
    Pending,
    Confirmed,
    /// It went back.
    Reverted,
}

impl Phase {
    pub fn word(self) -> &'static str {
        match self {
            Phase::None => "none",
            Phase::Started => "started",
            Phase::Pending => "pending",
            Phase::Confirmed => "confirmed",
            Phase::Reverted => "reverted",
        }
    }
}

/// Reasons of `fwctl apply` that say nothing against a policy: something died before the confirmation.
const INTERRUPTED: [&str; 2] = [
    "not confirmed in time",
    "the machine restarted before it was confirmed",
];

/// Whether a generation was interrupted, so that it is tried again.
/// - why: the reason for which it went back.
pub fn was_interrupted(phase: Phase, why: Option<&str>) -> bool {
    match phase {
        Phase::Started => true,
        Phase::Reverted => why.is_some_and(|why| INTERRUPTED.contains(&why)),
        _ => false,
    }
}

/// The ledger of a host's firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ledger {
    /// There is no firewall, or it was not asked.
    #[default]
    None,
    Green,
    Red,
}

/// Packets that another policy would decide differently by one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flip {
    /// "chain input: udp dport 53 drop", "policy.nft:7: udp dport 53 drop"
    pub rule: String,
    pub packets: u64,
    /// Flows of these packets (directions of connections), if they were counted.
    pub flows: Option<u64>,
}

/// The outcome of a trial: decisions of another policy on the host's traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// Number of the question that it answers, 0 = a pointer's trial.
    pub question: u64,
    /// Digest of the bundle.
    pub digest: String,
    pub seconds: u32,
    /// Seconds before the trial whose packets the host had recorded. None: the kernel counted those of the seconds after it.
    pub recorded: Option<u32>,
    /// Rules that would newly drop, the most packets first.
    pub drops: Vec<Flip>,
    /// Rules that drop now packets that would pass.
    pub passes: Vec<Flip>,
    /// Why the policy could not be tried.
    pub error: Option<String>,
}

/// State of root's service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Local {
    /// The highest generation that the host has taken, and how far it has come.
    pub generation: u64,
    pub digest: String,
    pub phase: Phase,
    /// Why it went back.
    pub why: Option<String>,
    /// The generation that was confirmed last, 0 = none.
    pub confirmed: u64,
    pub ledger: Ledger,
    /// The firewall's program, e.g. "rust-firewall".
    pub twin: Option<String>,
    /// The latest trial that has ended.
    pub trial: Option<Trial>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub channel: String,
    /// The generation of the pointer that the agent has seen.
    pub wanted: u64,
    #[serde(flatten)]
    pub local: Local,
    pub version: String,
    /// The last thing that went wrong.
    pub error: Option<String>,
    /// Address of the firewall's metrics, for Prometheus: "192.0.2.1:9847".
    pub metrics: Option<String>,
    /// Seconds since 1970, by the host's clock.
    pub time: u64,
}
