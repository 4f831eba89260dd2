// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line.

pub mod arguments;
pub mod daemon;
pub mod explain;
#[allow(clippy::module_inception)]
mod options;
pub mod types;
pub mod values;

pub use options::*;
pub use types::*;
