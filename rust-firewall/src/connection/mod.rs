// SPDX-License-Identifier: GPL-2.0-or-later
//! Follows connections, and reads the names that their clients send.

pub mod asked;
pub mod borders;
pub mod bound;
pub mod checksum;
pub mod direction;
pub mod follow;
pub mod ids;
pub mod lifetime;
pub mod listing;
pub mod openers;
pub mod opening;
pub mod option;
pub mod pool;
pub mod queries;
pub mod requests;
pub mod retry;
pub mod segment;
pub mod share;
pub mod stream;
pub mod table;
pub mod tcp;
pub mod types;
pub mod udp;

pub use types::*;
