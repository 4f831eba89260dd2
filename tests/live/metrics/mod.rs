// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of running firewalls: both serve the same text, a real Prometheus reads them, no client delays a packet, and
//! the dashboard requests nothing else.

use twinwall_tests::case::{for_each_twin, Case};

mod abuse;
mod dashboard;
mod http;
mod large;
mod prometheus;
mod text;

/// All cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [text::ROWS, prometheus::ROWS, abuse::ROWS, large::ROWS].concat();
    let mut cases = vec![
        Case::new("both-say-the-same", 60, text::same_text),
        Case::new("both-refuse-the-same-addresses", 60, text::same_refusals),
        Case::new("the-dashboard-asks-for-what-there-is", 60, dashboard::known),
    ];
    cases.extend(for_each_twin(&rows));
    cases
}
