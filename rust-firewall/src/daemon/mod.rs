// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall from start to end.

#[allow(clippy::module_inception)]
mod daemon;
pub mod supervise;
pub mod types;
mod watchdog;

pub use daemon::*;
