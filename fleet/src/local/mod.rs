// SPDX-License-Identifier: GPL-2.0-or-later
//! Root's service on each host. Its requests are state, try, apply, confirm, revert and rotate, and it verifies
//! everything itself. Its socket starts one process per connection; between requests no process runs.

pub mod client;
pub mod health;
pub mod past;
pub mod protocol;
pub mod reach;
pub mod record;
pub mod service;
pub mod trial;
