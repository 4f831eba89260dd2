// SPDX-License-Identifier: GPL-2.0-or-later
//! The process that answers for a firewall that has stalled.

#[allow(clippy::module_inception)]
mod guard;
pub mod run;
pub mod watch;

pub use guard::*;
