// SPDX-License-Identifier: GPL-2.0-or-later
//! Helpers that several tests share.

pub mod connections;
pub mod engine;
pub mod lines;
pub mod messages;
pub mod names;
pub mod place;
pub mod snapshots;
pub mod vectors;
