// SPDX-License-Identifier: GPL-2.0-or-later
//! Guard: the process that answers packets when the firewall can't.

#[allow(clippy::module_inception)]
mod guard;
pub mod run;
pub mod watch;

pub use guard::*;
