// SPDX-License-Identifier: GPL-2.0-or-later
//! A loaded policy with its counters.

pub mod carry;
pub mod load;
pub mod tally;
