// SPDX-License-Identifier: GPL-2.0-or-later
//! Unit tests of the Rust twin, each in a folder named like the tested file's.

mod base;
mod connection;
mod control;
mod engine;
mod events;
mod explain;
mod guard;
mod handover;
mod names;
mod options;
mod packet;
mod policy;
mod queue;
mod ruleset;
mod state;
mod support;
mod worker;
