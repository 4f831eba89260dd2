// SPDX-License-Identifier: GPL-2.0-or-later
//! The control socket: its file, its clients, their requests and the answers (docs/CONTROL.md).

pub mod answer;
pub mod client;
#[allow(clippy::module_inception)]
mod control;
#[allow(unsafe_code)]
pub mod peer;
pub mod process;
pub mod proof;
pub mod request;
pub mod socket;

pub use control::*;
