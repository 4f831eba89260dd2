// SPDX-License-Identifier: GPL-2.0-or-later
//! Hosts as the operator sees them: their reports in etcd, and their states with respect to a pointer.

use std::collections::BTreeSet;

use crate::etcd::Etcd;
use crate::failure::Result;
use crate::pointer::{is_name, Pointer};
use crate::report::{Ledger, Phase, Report};
use crate::store::key;

/// Host, as etcd describes it.
#[derive(Clone, Debug)]
pub struct Host {
    pub id: String,
    pub report: Report,
    /// True if the host's lease in etcd, which its agent renews, is valid.
    pub is_alive: bool,
}

/// State of a host with respect to a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Confirmed,
    /// The host has not confirmed the generation yet, and reports no error.
    Applying,
    Reverted,
    /// The host has not confirmed the generation, and reports an error.
    Behind,
    /// The host's wave has not begun.
    Waiting,
    /// The host's lease has ended, or it has never reported. Its last report says nothing about its present policy.
    Silent,
}

impl State {
    pub const ALL: [State; 6] = [
        State::Confirmed,
        State::Applying,
        State::Reverted,
        State::Behind,
        State::Waiting,
        State::Silent,
    ];

    pub fn word(self) -> &'static str {
        match self {
            State::Confirmed => "confirmed",
            State::Applying => "applying",
            State::Reverted => "reverted",
            State::Behind => "behind",
            State::Waiting => "waiting",
            State::Silent => "silent",
        }
    }
}

impl Host {
    /// Returns the host's state with respect to a pointer. A host that has reverted and is silent now is reverted: it
    /// counts against the rollout.
    pub fn state(&self, pointer: &Pointer) -> State {
        let local = &self.report.local;
        let has_it = local.generation == pointer.generation;
        match local.phase {
            Phase::Reverted if has_it => State::Reverted,
            _ if !self.is_alive => State::Silent,
            Phase::Confirmed if has_it => State::Confirmed,
            _ if !pointer.reaches(&self.id) => State::Waiting,
            _ if self.report.error.is_some() => State::Behind,
            _ => State::Applying,
        }
    }

    /// Returns the reason of the host's revert, otherwise the host's error; empty if it has neither.
    pub fn why(&self) -> &str {
        let why = self.report.local.why.as_deref();
        why.or(self.report.error.as_deref()).unwrap_or_default()
    }

    /// Returns the generation whose policy is loaded, by the host's last report; 0 = none.
    pub fn applied(&self) -> u64 {
        let local = &self.report.local;
        match local.phase {
            Phase::Pending | Phase::Confirmed => local.generation,
            Phase::None | Phase::Started | Phase::Reverted => local.confirmed,
        }
    }

    pub fn is_red(&self) -> bool {
        self.report.local.ledger == Ledger::Red
    }
}

/// Reads all hosts of all channels, ordered by name.
/// - channel: channel to assume for a host whose report can't be parsed.
pub fn all(etcd: &mut Etcd, channel: &str) -> Result<Vec<Host>> {
    let alive = etcd.list(key::ALIVE)?.entries;
    let alive: BTreeSet<String> = alive
        .into_iter()
        .filter_map(|entry| entry.key.strip_prefix(key::ALIVE).map(str::to_owned))
        .collect();
    let host = |entry: crate::etcd::Entry| {
        let id = entry.key.strip_prefix(key::HOSTS)?.to_owned();
        // A host whose report can't be parsed is listed anyway.
        let report = serde_json::from_slice(&entry.value).unwrap_or_else(|_| Report {
            channel: channel.to_owned(),
            error: Some("unsupported report: use the same version on all hosts".to_owned()),
            ..Report::default()
        });
        let is_alive = alive.contains(&id);
        Some(Host {
            id,
            report,
            is_alive,
        })
    };
    let all = etcd.list(key::HOSTS)?.entries.into_iter().filter_map(host);
    Ok(all.collect())
}

/// Reads all hosts of a channel, ordered by name.
pub fn read(etcd: &mut Etcd, channel: &str) -> Result<Vec<Host>> {
    let mut all = all(etcd, channel)?;
    all.retain(|one| one.report.channel == channel);
    Ok(all)
}

/// Returns the names of all channels that have a pointer or hosts.
pub fn channels(etcd: &mut Etcd) -> Result<BTreeSet<String>> {
    let hosts = all(etcd, "")?;
    let mut names: BTreeSet<String> = hosts.into_iter().map(|one| one.report.channel).collect();
    let prefix = key::in_etcd(&key::channel(""));
    let keys = etcd.list(&prefix)?.entries.into_iter();
    names.extend(keys.filter_map(|one| one.key.strip_prefix(&prefix).map(str::to_owned)));
    // The key of a question begins with its channel's name and a slash.
    names.retain(|name| is_name(name));
    Ok(names)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::pointer::tests::pointer;
    use crate::report::Local;

    pub fn host(id: &str, phase: Phase, is_alive: bool) -> Host {
        let local = Local {
            generation: 1,
            phase,
            ..Local::default()
        };
        Host {
            id: id.to_owned(),
            report: Report {
                local,
                ..Report::default()
            },
            is_alive,
        }
    }

    #[test]
    fn each_host_has_a_state() {
        let all = Pointer {
            wave: 1,
            ..pointer()
        };
        let state = |phase, is_alive| host("a", phase, is_alive).state(&all);
        assert_eq!(state(Phase::Confirmed, true), State::Confirmed);
        assert_eq!(state(Phase::Confirmed, false), State::Silent);
        assert_eq!(state(Phase::Reverted, true), State::Reverted);
        assert_eq!(state(Phase::Reverted, false), State::Reverted);
        assert_eq!(state(Phase::None, false), State::Silent);
        assert_eq!(state(Phase::Pending, true), State::Applying);
        let mut behind = host("a", Phase::None, true);
        behind.report.error = Some("disk full".to_owned());
        assert_eq!(behind.state(&all), State::Behind);
    }
}
