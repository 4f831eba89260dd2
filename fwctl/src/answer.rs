// SPDX-License-Identifier: GPL-2.0-or-later
//! Replies of a firewall, as docs/CONTROL.md describes them. Unknown keys are ignored.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    pub program: String,
    pub version: String,
    pub pid: i32,
    pub uid: u32,
    pub executable: Option<String>,
    pub arguments: Vec<String>,
    pub time_ms: u64,
    pub started_ms: u64,
    /// Milliseconds since the firewall's start; None from older firewalls, which report only wall-clock times.
    uptime_ms: Option<u64>,
    pub backend: String,
    pub policy: Option<StatusPolicy>,
    pub queues: Vec<StatusQueue>,
    pub ledger: StatusLedger,
    pub contract: Vec<Contract>,
    /// True if the guard runs, false if it has ended. None: the options need no guard, or the firewall is too old to
    /// report it.
    pub guard: Option<bool>,
    pub reload_error: Option<String>,
    pub log_level: String,
    pub counts: BTreeMap<String, u64>,
}

impl Status {
    /// Returns the seconds since the firewall's start.
    pub fn uptime_s(&self) -> u64 {
        let by_clock = self.time_ms.saturating_sub(self.started_ms);
        self.uptime_ms.unwrap_or(by_clock) / 1000
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct StatusPolicy {
    pub file: String,
    pub generation: u64,
    pub loaded_ms: u64,
    pub chains: u64,
    pub rules: u64,
    pub requirement: Requirement,
    /// Presence of connection states in packets: "seen" or "missing". None: the policy reads no states, or it is not
    /// known yet.
    pub ct_state: Option<String>,
    /// Number of unexpired addresses that sets have learned, also sets that a reload has removed.
    #[serde(default)]
    pub learned: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Requirement {
    pub copy_bytes: u32,
    pub uid_gid: bool,
    pub conntrack_state: bool,
    pub conntrack_mark: bool,
    pub interface_names: bool,
    #[serde(default)] // missing in replies of older firewalls
    pub names: bool,
    #[serde(default)] // missing in replies of older firewalls
    pub learns: bool,
    pub reject: bool,
}

/// State of a queue. The kernel's counters (waiting, queue_full, user_drop, unseen) are None if the firewall can't read
/// them.
#[derive(Clone, Debug, Deserialize)]
pub struct StatusQueue {
    pub queue: u16,
    pub waiting: Option<u64>,
    pub queue_length: u64,
    pub received: u64,
    pub queue_full: Option<u64>,
    pub user_drop: Option<u64>,
    pub unseen: Option<u64>,
    pub stalled: u64,
    pub reconciled: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StatusLedger {
    pub reconciled: bool,
    pub difference: u64,
    pub lost: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Contract {
    pub situation: String,
    /// Mode of this situation in --fail, "open" or "closed".
    pub mode: String,
    pub really: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Stats {
    pub time_ms: u64,
    pub total: StatsTotal,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StatsTotal {
    pub received: u64,
    /// Numbers of connections that were followed for their names, by result; empty from older firewalls.
    #[serde(default)]
    pub connections: BTreeMap<String, u64>,
    pub verdicts: BTreeMap<String, u64>,
    pub malformed: BTreeMap<String, u64>,
    pub kernel: Option<StatsKernel>,
    pub lost: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StatsKernel {
    pub unseen: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Rules {
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Rule {
    /// Place of the rule, such as "web.nft:6".
    pub rule: String,
    pub table: String,
    pub chain: String,
    pub text: String,
    pub comment: Option<String>,
    pub counters: Vec<Counter>,
    pub logs: Vec<Log>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Counter {
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    pub packets: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Reload {
    pub generation: u64,
    pub rules: u64,
    pub kept: u64,
    pub added: u64,
    pub removed: u64,
    pub milliseconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Level {
    pub level: String,
    pub was: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a status whose wall clock was set from 5,000 s to 1,000 s.
    fn status(uptime: &str) -> Status {
        let text = format!(
            r#"{{"program": "p", "version": "1", "pid": 1, "uid": 0, "executable": null, "arguments": [],
            "time_ms": 1000000, "started_ms": 5000000, {uptime} "backend": "raw", "policy": null, "queues": [],
            "ledger": {{"reconciled": true, "difference": 0, "lost": 0}}, "contract": [], "guard": null,
            "reload_error": null, "log_level": "warning", "counts": {{}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_uptime_is_that_of_the_clock_that_is_never_set() {
        assert_eq!(status(r#""uptime_ms": 7000,"#).uptime_s(), 7);
        // Older firewalls report wall-clock times only.
        assert_eq!(status("").uptime_s(), 0);
    }
}
