// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust twin's modules, for its program, tests, benchmarks and fuzzers, and for the crates fwctl, stage, apply,
//! cage and expect.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod base;
pub mod connection;
#[cfg(feature = "daemon")]
pub mod control;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod engine;
#[cfg(feature = "daemon")]
pub mod events;
pub mod explain;
#[cfg(feature = "daemon")]
pub mod guard;
pub mod handover;
pub mod names;
pub mod options;
pub mod packet;
pub mod policy;
pub mod privilege;
pub mod queue;
pub mod ruleset;
pub mod spec;
pub mod state;
pub mod worker;
