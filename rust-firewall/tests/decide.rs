// SPDX-License-Identifier: GPL-2.0-or-later
//! The verdict of every status under every setting.

use rust_firewall::decide::{decide, DecideSettings};
use rust_firewall::packet::{PacketStatus, STATUSES};
use rust_firewall::verdict::Verdict;

const SETTINGS: [DecideSettings; 4] = [
    DecideSettings {
        default_verdict: Verdict::Accept,
        fail_open: false,
        malformed_by_policy: false,
    },
    DecideSettings {
        default_verdict: Verdict::Accept,
        fail_open: true,
        malformed_by_policy: false,
    },
    DecideSettings {
        default_verdict: Verdict::Drop,
        fail_open: false,
        malformed_by_policy: false,
    },
    DecideSettings {
        default_verdict: Verdict::Drop,
        fail_open: true,
        malformed_by_policy: false,
    },
];

fn fail_verdict(settings: &DecideSettings) -> Verdict {
    match settings.fail_open {
        true => Verdict::Accept,
        false => Verdict::Drop,
    }
}

#[test]
fn what_could_be_read_gets_the_default() {
    for settings in SETTINGS {
        assert_eq!(
            decide(&settings, PacketStatus::Ok, false),
            settings.default_verdict
        );
        assert_eq!(
            decide(&settings, PacketStatus::Cut, false),
            settings.default_verdict
        );
    }
}

#[test]
fn malformed_gets_the_fail_mode() {
    for settings in SETTINGS {
        for (status, name) in STATUSES.into_iter().skip(2) {
            assert_eq!(
                decide(&settings, status, false),
                fail_verdict(&settings),
                "{name}"
            );
        }
    }
}

#[test]
fn truncated_gets_the_fail_mode_whatever_the_status() {
    for settings in SETTINGS {
        for (status, name) in STATUSES {
            assert_eq!(
                decide(&settings, status, true),
                fail_verdict(&settings),
                "{name}"
            );
        }
    }
}
