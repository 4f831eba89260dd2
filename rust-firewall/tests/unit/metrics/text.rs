// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics, byte for byte as the vectors tell them.

use crate::support::snapshots;
use crate::support::snapshots::vector;
use rust_firewall::metrics;
use rust_firewall::state::snapshot::Snapshot;

fn text_of(snapshot: Snapshot) -> String {
    metrics::text::text(snapshot, snapshots::counts(), 4096 * 7)
}

#[test]
fn with_a_policy() {
    assert_eq!(text_of(snapshots::full()), vector("metrics.txt"));
}

#[test]
fn without_a_policy() {
    assert_eq!(text_of(snapshots::idle()), vector("metrics-idle.txt"));
}

#[test]
fn in_the_older_format() {
    let text = metrics::plain::plain(&text_of(snapshots::full()));
    assert_eq!(text, vector("metrics-plain.txt"));
}

#[test]
fn older_format_of_anything() {
    for text in [
        "",
        "# HELP",
        "# HELP ",
        "# HELP a b",
        "# TYPE a counter",
        "a 1",
    ] {
        metrics::plain::plain(text);
    }
}

#[test]
fn the_accept_header_chooses() {
    for (accept, plain) in [
        ("", false),
        ("*/*", false),
        ("text/plain", true),
        ("text/plain;version=0.0.4, */*;q=0.1", true),
        ("application/openmetrics-text;version=1.0.0", false),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            false,
        ),
    ] {
        assert_eq!(metrics::plain::is_wanted(accept), plain, "{accept}");
    }
}
