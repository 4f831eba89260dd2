// SPDX-License-Identifier: GPL-2.0-or-later
//! Events: lines of JSON about packets and about the program itself.

#[allow(clippy::module_inception)]
mod events;
pub mod gather;
pub mod headers;
pub mod sink;
pub mod text;
pub mod types;

pub use events::*;
pub use types::*;
