// SPDX-License-Identifier: GPL-2.0-or-later
//! The threads that give packets their verdicts.

pub mod evaluate;
pub mod event;
mod reading;
pub mod reject;
mod run;
pub mod stats;
pub mod tracked;
mod types;
pub mod wait;
#[allow(clippy::module_inception)]
mod worker;
pub mod workers;

pub use types::{Shared, Worker, WorkerError};
pub use worker::*;
