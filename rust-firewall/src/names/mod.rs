// SPDX-License-Identifier: GPL-2.0-or-later
//! Names that clients send in TLS, QUIC, HTTP and DNS, and the addresses in DNS answers.

pub mod answer;
pub mod blank;
pub mod body;
pub mod client;
pub mod cursor;
pub mod dns;
pub mod hello;
pub mod host;
pub mod http;
pub mod progress;
pub mod quic;
pub mod record;
pub mod types;

pub use types::*;
