// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections, followed until their clients have shown their names.

pub mod follow;
pub mod types;

pub use types::*;
