// SPDX-License-Identifier: GPL-2.0-or-later
//! What the integration programs (`offline`, `live`, `soak`) share.
//!
//! A *case* is one test. It runs as a process of its own (`case`), in namespaces of its own, under a time limit, so
//! that whatever goes wrong ends with it: no firewall, rule or link is left behind.

pub mod browser;
pub mod case;
pub mod sources;
