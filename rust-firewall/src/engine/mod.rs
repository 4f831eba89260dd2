// SPDX-License-Identifier: GPL-2.0-or-later
//! Compilation of a policy, and decisions by it.

pub mod candidates;
pub mod compile;
pub mod compiled;
pub mod decide;
pub mod dependency;
pub mod fields;
pub mod flow;
pub mod frame;
pub mod hostnames;
pub mod index;
pub mod interface;
pub mod learned;
pub mod learning;
pub mod lookup;
pub mod lookup_hash;
pub mod marks;
pub mod matches;
pub mod named;
pub mod rule;
pub mod set;
pub mod statement;
pub mod teach;
pub mod types;
pub mod walk;
pub mod ways;
