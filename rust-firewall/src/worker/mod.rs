// SPDX-License-Identifier: GPL-2.0-or-later
//! The threads that answer packets.

#[cfg(feature = "daemon")]
pub mod evaluate;
#[cfg(feature = "daemon")]
pub mod event;
pub mod reject;
#[cfg(feature = "daemon")]
pub mod stats;
#[cfg(feature = "daemon")]
pub mod tracked;
pub mod wait;
#[cfg(feature = "daemon")]
#[allow(clippy::module_inception)]
mod worker;
#[cfg(feature = "daemon")]
pub mod workers;

#[cfg(feature = "daemon")]
pub use worker::*;
