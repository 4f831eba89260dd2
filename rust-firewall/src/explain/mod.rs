// SPDX-License-Identifier: GPL-2.0-or-later
//! What a policy says of packets of a capture.

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
