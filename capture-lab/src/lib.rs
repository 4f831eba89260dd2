// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures rings of `capture`: the pages under a ring, the cost of a packet, and the losses of a slow reader.

pub mod arguments;
pub mod bench;
pub mod census;
pub mod cost;
pub mod misses;
pub mod tools;
pub mod translation;
