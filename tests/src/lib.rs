// SPDX-License-Identifier: GPL-2.0-or-later
//! What the integration programs (`platform`, `rules`, `netns`) share.
//!
//! A *case* is one test. It runs as a process of its own (`case`), in namespaces of its own, under a time limit, so
//! that whatever goes wrong ends with it: no firewall, rule or link is left behind.

pub mod case;
pub mod firewall;
pub mod frames;
pub mod judge;
pub mod ledger;
pub mod overload;
pub mod owner;
pub mod packets;
pub mod place;
pub mod proc;
pub mod strace;
pub mod traffic;
pub mod twin;
