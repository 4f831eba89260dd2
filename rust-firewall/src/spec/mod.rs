// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables that spec/generate makes for both twins.

pub mod count;
pub mod field;
#[cfg(feature = "daemon")]
pub mod metric;
pub mod refused;
pub mod status;
pub mod symbols;
