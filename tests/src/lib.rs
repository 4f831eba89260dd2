// SPDX-License-Identifier: GPL-2.0-or-later
//! Code shared by the integration programs (`offline`, `live`, `soak`, `fleet`).
//!
//! A *case* is one test. It runs in a separate process (`case`) and separate namespaces, under a time limit, so that no
//! firewall, rule or link remains after it, even if it fails.

pub mod browser;
pub mod case;
pub mod fleet;
pub mod held;
pub mod sources;
