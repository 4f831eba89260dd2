// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue of the kernel, and the three backends that use it.

pub mod adopt;
pub mod attribute;
#[allow(unsafe_code)]
pub mod classic;
pub mod frame;
#[allow(unsafe_code)]
pub mod mnl;
#[allow(unsafe_code)]
pub mod proc;
#[allow(clippy::module_inception)]
mod queue;
#[allow(unsafe_code)]
pub mod raw;
pub mod restate;
#[allow(unsafe_code)]
pub mod socket;
pub mod types;

pub use attribute::{attribute_fits, check_attributes, conntrack_mark, QueueExtras};
pub use frame::{frame, truncated};
pub use queue::*;
pub use types::*;
