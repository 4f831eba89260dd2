// SPDX-License-Identifier: GPL-2.0-or-later
//! Loaded policy, the sums of its counters, and the transfer of its counters, limits and quotas to its successor.

pub mod load;
pub mod migration;
pub mod tally;
