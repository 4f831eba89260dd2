// SPDX-License-Identifier: GPL-2.0-or-later
//! Loaded policy with its counters.

pub mod load;
pub mod migration;
pub mod tally;
