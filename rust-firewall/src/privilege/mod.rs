// SPDX-License-Identifier: GPL-2.0-or-later
//! Privileges that the firewall has after its start.

#[cfg(feature = "daemon")]
pub mod landlock;
#[cfg(feature = "daemon")]
pub mod notify;
#[cfg(feature = "daemon")]
pub mod path;
#[cfg(feature = "daemon")]
#[allow(clippy::module_inception)]
mod privilege;
#[cfg(feature = "daemon")]
#[allow(unsafe_code)]
pub mod seccomp;
pub mod user;

#[cfg(feature = "daemon")]
pub use privilege::*;
