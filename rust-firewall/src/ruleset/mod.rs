// SPDX-License-Identifier: GPL-2.0-or-later
//! A loaded policy with its counters.

pub mod load;
pub mod migration;
pub mod tally;
