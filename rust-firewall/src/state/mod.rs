// SPDX-License-Identifier: GPL-2.0-or-later
//! What the firewall knows of itself, and how a policy is exchanged.

pub mod contract;
pub mod queue_rules;
pub mod reload;
pub mod report;
pub mod report_policy;
pub mod snapshot;
#[allow(clippy::module_inception)]
mod state;

pub use state::*;
