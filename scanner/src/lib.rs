// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests from outside which ports a firewall lets through.

pub mod arguments;
pub mod command;
pub mod counts;
pub mod deadlines;
pub mod engine;
pub mod failure;
pub mod flight;
pub mod hints;
pub mod matcher;
pub mod output;
pub mod permutation;
pub mod plan;
pub mod ports;
pub mod probe;
pub mod progress;
pub mod rate;
pub mod record;
pub mod resume;
pub mod run;
pub mod signals;
pub mod state;
pub mod syn;
pub mod targets;
pub mod verify;
pub mod writer;
