// SPDX-License-Identifier: GPL-2.0-or-later
//! Code shared by the integration programs (`offline`, `live`, `soak`, `fleet`).
//!
//! A *case* is one test. It runs in a separate process (`case`) and separate namespaces, under a time limit, so that every
//! failure ends with it: no firewall, rule or link remains.

pub mod browser;
pub mod case;
pub mod fleet;
pub mod held;
pub mod sources;
