// SPDX-License-Identifier: GPL-2.0-or-later
//! A host's report, which its agent writes to the key `hosts/ID` of etcd.

use serde::{Deserialize, Serialize};

/// Progress of a host with a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The host has no policy of the fleet.
    #[default]
    None,
    /// The host has begun to apply the policy.
    Started,
    /// The policy is loaded, and waits for its confirmation.
    Pending,
    Confirmed,
    /// The host has reverted to its previous policy, or has kept it because the new policy failed its trial or could
    /// not be loaded.
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

/// Reasons of `fwctl apply` for a revert that the policy has not caused: a process or the machine ended before the
/// confirmation.
const INTERRUPTED: [&str; 2] = [
    "not confirmed in time",
    "the machine restarted before it was confirmed",
];

/// Returns true if the confirmation of a generation was interrupted, so that the generation is applied again.
/// - why: reason of the revert.
pub fn was_interrupted(phase: Phase, why: Option<&str>) -> bool {
    match phase {
        Phase::Started => true,
        Phase::Reverted => why.is_some_and(|why| INTERRUPTED.contains(&why)),
        _ => false,
    }
}

/// State of the ledger of a host's firewall: green if it reconciles, red if it does not or if the firewall does not
/// answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ledger {
    /// There is no firewall, or it was not asked.
    #[default]
    None,
    Green,
    Red,
}

/// Packets that another policy would decide differently because of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flip {
    /// Text of the rule with its place: "chain input: udp dport 53 drop", "policy.nft:7: udp dport 53 drop".
    pub rule: String,
    pub packets: u64,
    /// Flows of these packets (directions of connections); None: not counted, in a trial by the kernel.
    pub flows: Option<u64>,
}

/// Outcome of a trial: decisions of another policy on the host's traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// Number of the question (a signed request to try a policy) that the trial answers; 0 = trial of a pointer.
    pub question: u64,
    /// SHA-256 of the tried policy's bundle, in hexadecimal.
    pub digest: String,
    pub seconds: u32,
    /// Seconds of recorded packets on which the policy was tried. None: the kernel counted packets for `seconds` after
    /// the trial began.
    pub recorded: Option<u32>,
    /// Rules of the tried policy that would drop packets which the present policy accepts. Rules with the most packets
    /// come first.
    pub drops: Vec<Flip>,
    /// Rules of the present policy that drop packets which the tried policy would accept.
    pub passes: Vec<Flip>,
    /// Reason why the policy could not be tried.
    pub error: Option<String>,
}

/// State of a host, as root's service reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Local {
    /// Highest generation that the host has begun to apply, or has refused because of its trial; 0 = none. `digest` and
    /// `phase` are its digest and its progress.
    pub generation: u64,
    pub digest: String,
    pub phase: Phase,
    /// Reason why `phase` is `Reverted`.
    pub why: Option<String>,
    /// Generation that was confirmed last; 0 = none.
    pub confirmed: u64,
    /// Number of the latest accepted question (a signed request to try a policy), whose trial may still run; 0 = none.
    pub question: u64,
    pub ledger: Ledger,
    /// Name of the firewall's program, e.g. "rust-firewall"; None: no firewall was asked, or it did not answer.
    pub twin: Option<String>,
    /// Outcome of the latest trial. None: it still runs, or there was no trial.
    pub trial: Option<Trial>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub channel: String,
    /// Generation of the pointer that the agent read last from the store, at least `local.generation`. The host need
    /// not have applied it.
    pub wanted: u64,
    #[serde(flatten)]
    pub local: Local,
    pub version: String,
    /// Latest error of the agent; None after a check of the store without an error.
    pub error: Option<String>,
    /// Address of the firewall's metrics, for Prometheus: "192.0.2.1:9847".
    pub metrics: Option<String>,
    /// Time of the report in seconds since 1970, by the host's clock.
    pub time: u64,
}
