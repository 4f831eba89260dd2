// SPDX-License-Identifier: GPL-2.0-or-later
//! The service of root on each host: it knows try, apply, confirm, revert and rotate, and verifies everything itself. One process a
//! connection, started by its socket; between requests nothing runs.

pub mod client;
pub mod health;
pub mod past;
pub mod protocol;
pub mod reach;
pub mod record;
pub mod service;
pub mod trial;
