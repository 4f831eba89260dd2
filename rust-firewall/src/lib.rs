// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust twin's modules, for its program, its tests and its fuzzers.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod base;
pub mod control;
pub mod daemon;
pub mod engine;
pub mod events;
pub mod explain;
pub mod guard;
pub mod handover;
pub mod metrics;
pub mod options;
pub mod packet;
pub mod policy;
pub mod privilege;
pub mod queue;
pub mod ruleset;
pub mod spec;
pub mod state;
pub mod worker;
