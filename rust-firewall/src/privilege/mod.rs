// SPDX-License-Identifier: GPL-2.0-or-later
//! What the firewall keeps after its start.

pub mod landlock;
pub mod notify;
pub mod path;
#[allow(clippy::module_inception)]
mod privilege;
#[allow(unsafe_code)]
pub mod seccomp;
pub mod user;

pub use privilege::*;
