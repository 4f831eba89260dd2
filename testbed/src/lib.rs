// SPDX-License-Identifier: GPL-2.0-or-later
//! Test environment for firewalls: namespaces, the twins as running programs, traffic for them, and the kernel's
//! figures on both. Independent of both twins; shared by tests, harness, scanner, capture and capture-lab.
//!
//! A firewall, namespace or queue created here ends on drop, and with the process that created it.

pub mod allocation;
pub mod control;
pub mod cpu;
pub mod exporter;
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
pub mod record;
pub mod skip;
pub mod strace;
pub mod traffic;
pub mod twin;
pub mod wait;
