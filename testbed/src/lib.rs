// SPDX-License-Identifier: GPL-2.0-or-later
//! The place that firewalls are tried in: namespaces, the twins as running programs, traffic for them, and what the
//! kernel says of both. It belongs to neither twin; tests, scanner and harness share it.
//!
//! A firewall, a namespace or a queue that is made here goes with its value, and with the process that made it.

pub mod allocation;
pub mod control;
pub mod firewall;
pub mod folder;
pub mod frames;
pub mod ledger;
pub mod netns;
pub mod overload;
pub mod owner;
pub mod packets;
pub mod place;
pub mod proc;
pub mod queue;
pub mod skip;
pub mod strace;
pub mod traffic;
pub mod twin;
pub mod wait;
