// SPDX-License-Identifier: GPL-2.0-or-later
//! Modules that all other folders may use.

pub mod clock;
pub mod counts;
pub mod lock;
pub mod log;
pub mod object;
pub mod output;
pub mod pages;
pub mod siphash;
