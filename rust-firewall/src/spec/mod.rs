// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables that spec/generate makes for both twins.

pub mod count;
pub mod counter;
#[cfg(feature = "daemon")]
pub mod event;
pub mod exit;
pub mod field;
pub mod group;
pub mod letter;
pub mod option;
pub mod refused;
pub mod status;
pub mod symbols;
