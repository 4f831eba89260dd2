// SPDX-License-Identifier: GPL-2.0-or-later
//! Events of running firewalls: the contents of their lines. A sink (file, listener, client) that fails must not lose a
//! line uncounted, truncate a line, or delay a packet.

use twinwall_tests::case::{for_each_twin, Case};

mod rsyslog;
mod running;
mod sinks;
mod tail;
mod types;

/// Returns all test cases of the part `events`.
pub fn cases() -> Vec<Case> {
    let rows = [types::ROWS, tail::ROWS, sinks::ROWS, rsyslog::ROWS].concat();
    let mut cases = vec![Case::new("both-write-the-same-bytes", types::same_bytes)];
    cases.extend(for_each_twin(&rows));
    cases
}
