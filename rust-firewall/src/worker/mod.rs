// SPDX-License-Identifier: GPL-2.0-or-later
//! Worker threads: each decides the packets of one queue.

pub mod elements;
#[cfg(feature = "daemon")]
pub mod evaluate;
#[cfg(feature = "daemon")]
pub mod event;
#[cfg(feature = "daemon")]
mod pending;
#[cfg(feature = "daemon")]
mod reading;
pub mod reject;
#[cfg(feature = "daemon")]
mod run;
#[cfg(feature = "daemon")]
mod stage;
pub mod stats;
#[cfg(feature = "daemon")]
pub mod tracked;
#[cfg(feature = "daemon")]
mod types;
pub mod wait;
#[cfg(feature = "daemon")]
#[allow(clippy::module_inception)]
mod worker;
#[cfg(feature = "daemon")]
pub mod workers;

#[cfg(feature = "daemon")]
pub use types::{Shared, Worker, WorkerError};
#[cfg(feature = "daemon")]
pub use worker::*;
