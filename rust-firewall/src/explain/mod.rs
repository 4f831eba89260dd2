// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands `check` and `explain`: what a policy does with the packets of a capture.

pub mod check;
pub mod comment;
pub mod describe;
#[allow(clippy::module_inception)]
mod explain;
pub mod indexes;
pub mod json;
pub mod text;
pub mod trace;
pub mod types;

pub use explain::*;
