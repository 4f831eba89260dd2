// SPDX-License-Identifier: GPL-2.0-or-later
//! Upgrade: one firewall takes over from another.

#[allow(unsafe_code)]
pub mod channel;
#[cfg(feature = "daemon")]
pub mod connections;
#[cfg(feature = "daemon")]
pub mod counted;
#[cfg(feature = "daemon")]
pub mod give;
#[cfg(feature = "daemon")]
#[allow(clippy::module_inception)]
mod handover;
#[cfg(feature = "daemon")]
pub mod learned;
#[cfg(feature = "daemon")]
pub mod memory;
#[cfg(feature = "daemon")]
pub mod proof;
#[cfg(feature = "daemon")]
pub mod record;
#[cfg(feature = "daemon")]
pub mod rules;
#[cfg(feature = "daemon")]
pub mod state;
#[cfg(feature = "daemon")]
pub mod take;

#[cfg(feature = "daemon")]
pub use handover::*;
