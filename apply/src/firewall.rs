// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall for a policy with names: it marks packets for the kernel with the class of a connection's names
//! (docs/STAGE.md).

use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::learned::Learned;

/// Part of a generation that concerns the firewall: its start parameters, the marks, the iptables rules that queue
/// packets, and the sets that learn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naming {
    pub orders: Orders,
    /// Number of generations after which the values that identify them in marks repeat.
    pub generations: u32,
    /// Mask and value of the marks of connections whose class is final in the generation. Most of their packets are no
    /// longer queued.
    pub settled: (u32, u32),
    /// iptables rules, without the command: "mangle FORWARD -m mark …". Empty if nft's `queue` is used.
    pub rules: Vec<String>,
    /// Sets that learn addresses from DNS.
    #[serde(default)]
    pub learned: Vec<Learned>,
}

/// Start parameters of a firewall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    pub twin: Twin,
    /// Options of the firewall from the operator: all except policy, mask and control socket.
    pub options: Vec<String>,
    /// Value of the firewall's --stage: mask of the mark bits that the firewall and the kernel's rules use.
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Twin {
    Rust,
    C,
}

/// Firewall that reads names for the kernel's policy. A host has only one.
pub trait Firewall {
    /// Makes the firewall run with these parameters and this policy: starts it, reloads its policy, or restarts it if
    /// the parameters differ. Returns when the firewall uses them. Idempotent.
    /// - names: text of the firewall's policy.
    /// - lock: descriptor of the state folder's lock. It is held at least until fwctl can find a started process again.
    fn run(&self, orders: &Orders, names: &str, lock: File) -> Result<()>;

    /// Fails unless the firewall runs with these parameters and this policy.
    /// - names: text of the firewall's policy.
    fn check(&self, orders: &Orders, names: &str) -> Result<()>;

    /// Ends the firewall, if it runs.
    fn stop(&self) -> Result<()>;
}
