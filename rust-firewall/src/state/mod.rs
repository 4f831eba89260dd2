// SPDX-License-Identifier: GPL-2.0-or-later
//! State of the firewall, and the replacement of its policy.

pub mod contract;
pub mod queue_rules;
#[cfg(feature = "daemon")]
pub mod reload;
#[cfg(feature = "daemon")]
pub mod report;
#[cfg(feature = "daemon")]
pub mod report_counters;
#[cfg(feature = "daemon")]
pub mod report_policy;
pub mod reverse_path;
#[cfg(feature = "daemon")]
pub mod snapshot;
#[cfg(feature = "daemon")]
#[allow(clippy::module_inception)]
mod state;

#[cfg(feature = "daemon")]
pub use state::*;
