// SPDX-License-Identifier: GPL-2.0-or-later
//! State of `fwctl apply`: the generations, as the file `state.json` stores them.

use serde::{Deserialize, Serialize};

use crate::firewall::Naming;
use crate::learned::Learned;
use crate::marks::Marks;
use crate::nft;
use crate::queue_rules::QueueRules;
use crate::source::Table;

/// Maximum number of generations in the history.
pub const HISTORY_MAX: usize = 10;

/// Outcome of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Pending,
    Confirmed,
    Reverted,
    Unapplied,
}

/// Generation: one application of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    pub number: u64,
    pub outcome: Outcome,
    /// User who applied the policy, e.g. "root (login anna)".
    pub by: String,
    /// Time of the application (ms since 1970).
    pub applied_ms: u64,
    /// Time at which the outcome was set (ms since 1970); None while the generation is pending.
    pub settled_ms: Option<u64>,
    /// Absolute path of the policy's file, for messages and for the comparison with the file to load at boot.
    pub file: String,
    /// SHA-256 of the generation's stored text (policy.nft), in hexadecimal.
    pub digest: String,
    /// Tables of the policy.
    pub tables: Vec<Table>,
    /// Data of the generation's firewall; None: the policy has no names.
    #[serde(default)]
    pub naming: Option<Naming>,
    /// Reason of the revert; None: the generation was not reverted.
    pub why: Option<String>,
}

/// Generation that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub number: u64,
    /// Id of the boot in which the deadline is valid; in any other boot the deadline has passed.
    pub boot_id: String,
    /// Deadline of the confirmation, in milliseconds since the boot `boot_id`.
    pub deadline_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Number of the last confirmed generation, unless it was unapplied.
    pub applied: Option<u64>,
    pub pending: Option<Pending>,
    /// Latest generations and the applied generation, at most HISTORY_MAX, oldest first.
    pub generations: Vec<Generation>,
    /// iptables rules that lead to the firewall's queues.
    #[serde(default)]
    pub rules: QueueRules,
    /// Bits of connection marks that may contain classes; None: no bits.
    #[serde(default)]
    pub marks: Option<Marks>,
}

impl State {
    pub fn generation(&self, number: u64) -> Option<&Generation> {
        self.generations.iter().find(|one| one.number == number)
    }

    pub fn applied(&self) -> Option<&Generation> {
        self.generation(self.applied?)
    }

    /// Returns the applied generation's sets that learn addresses.
    pub fn learned(&self) -> Vec<Learned> {
        let naming = self.applied().and_then(|one| one.naming.as_ref());
        naming.map_or_else(Vec::new, |naming| naming.learned.clone())
    }

    /// Returns the tables of the applied and of the pending generation, and the table that identifies the generation.
    pub fn tables(&self) -> Vec<Table> {
        let applied = self.applied().map(|one| one.tables.clone());
        let mut tables = applied.unwrap_or_default();
        tables.extend(
            self.waiting()
                .into_iter()
                .flat_map(|one| one.tables.clone()),
        );
        tables.push(nft::own_table());
        tables
    }

    /// Returns the generation that waits for its confirmation, if any.
    pub fn waiting(&self) -> Option<&Generation> {
        self.generation(self.pending.as_ref()?.number)
    }

    /// Returns the latest generation whose text has this digest, if that generation was reverted.
    pub fn reverted(&self, digest: &str) -> Option<&Generation> {
        let mut latest_first = self.generations.iter().rev();
        let latest = latest_first.find(|one| one.digest == digest)?;
        (latest.outcome == Outcome::Reverted).then_some(latest)
    }

    pub fn next_number(&self) -> u64 {
        self.generations.last().map_or(1, |last| last.number + 1)
    }

    /// Sets the outcome of a generation. Does nothing if the history does not contain the generation.
    /// - why: reason of a revert; None for other outcomes.
    /// - now_ms: time of the outcome (ms since 1970).
    pub fn settle(&mut self, number: u64, outcome: Outcome, why: Option<String>, now_ms: u64) {
        let mut generations = self.generations.iter_mut();
        if let Some(generation) = generations.find(|one| one.number == number) {
            generation.outcome = outcome;
            generation.settled_ms = Some(now_ms);
            generation.why = why;
        }
    }

    /// Adds a generation. Returns the numbers of the generations that were removed from the history: the oldest ones,
    /// but never the applied one.
    pub fn add(&mut self, generation: Generation) -> Vec<u64> {
        self.generations.push(generation);
        let mut gone = Vec::new();
        while self.generations.len() > HISTORY_MAX {
            let applied = self.applied;
            let is_old = |one: &Generation| Some(one.number) != applied;
            match self.generations.iter().position(is_old) {
                Some(place) => gone.push(self.generations.remove(place).number),
                None => break,
            }
        }
        gone
    }
}
