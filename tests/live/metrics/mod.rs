// SPDX-License-Identifier: GPL-2.0-or-later
//! The exporter with running firewalls: its text is the same for both twins, a real Prometheus reads it, no client
//! delays a packet or stays connected too long, and the dashboard uses only existing metrics. Cases of HTTP alone run
//! with one twin.

use twinwall_tests::case::{for_each_twin, Case};

mod abuse;
mod dashboard;
mod http;
mod large;
mod prometheus;
mod text;

/// Case that runs once, not with each twin: name, test.
type LoneRow = (&'static str, fn() -> anyhow::Result<()>);

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let lone = [
        &[
            ("both-say-the-same", text::same_text as fn() -> _),
            ("the-dashboard-asks-for-what-there-is", dashboard::known),
            ("alerts-fire", prometheus::alerts),
        ],
        text::LONE_ROWS,
        abuse::ROWS,
        large::ROWS,
    ];
    let mut cases = for_each_twin(&[text::ROWS, prometheus::ROWS].concat());
    let lone = lone.concat().into_iter();
    cases.extend(lone.map(|(name, body)| Case::new(name, body)));
    cases
}
