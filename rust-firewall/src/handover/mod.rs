// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes over from another.

#[allow(unsafe_code)]
pub mod channel;
pub mod counted;
pub mod give;
#[allow(clippy::module_inception)]
mod handover;
pub mod memory;
pub mod proof;
pub mod rules;
pub mod state;
pub mod take;

pub use handover::*;
