// SPDX-License-Identifier: GPL-2.0-or-later
//! The threads that answer packets.

pub mod evaluate;
pub mod event;
pub mod reject;
pub mod stats;
pub mod tracked;
pub mod wait;
#[allow(clippy::module_inception)]
mod worker;
pub mod workers;

pub use worker::*;
