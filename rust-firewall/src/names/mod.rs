// SPDX-License-Identifier: GPL-2.0-or-later
//! Names: what a client's first bytes say of the host it wants.

pub mod types;

pub use types::*;
