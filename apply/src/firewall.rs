// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall of a policy with names: it tells the kernel the class of a connection's names (docs/STAGE.md).

use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::failure::Result;

/// A generation's part for the firewall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naming {
    pub orders: Orders,
    /// Generations until the bits of one come again.
    pub generations: u32,
    /// Marks of connections that are not queued any more: a mask, and its value.
    pub settled: (u32, u32),
    /// Its rules of iptables, without the command: "FORWARD -m mark …". None where nft's `queue` is used.
    pub rules: Vec<String>,
}

/// How a firewall is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    pub twin: Twin,
    /// The operator's options.
    pub options: Vec<String>,
    /// Its --stage: the bits of marks.
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Twin {
    Rust,
    C,
}

/// The only firewall that names for the kernel's policy.
pub trait Firewall {
    /// Has it run by these orders and name by this text, and returns when it does. Any number of calls are like one.
    /// - lock: held by what starts until its process can be found again.
    fn run(&self, orders: &Orders, names: &str, lock: File) -> Result<()>;

    /// Fails if it does not run so.
    fn check(&self, orders: &Orders, names: &str) -> Result<()>;

    /// Ends it, if it runs.
    fn stop(&self) -> Result<()>;
}
