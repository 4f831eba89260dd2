// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the check that packets have a connection state.

use rust_firewall::worker::tracked::{look, name, Tracked, TrackedWatch};

#[test]
fn it_is_said_when_enough_have_none() {
    let mut watch = TrackedWatch::default();
    assert_eq!(look(&mut watch, 1, true, 0, 0), Tracked::Unknown);
    assert_eq!(look(&mut watch, 1, true, 9, 9), Tracked::Unknown);
    assert_eq!(look(&mut watch, 1, true, 9, 10), Tracked::Missing);
    assert_eq!(name(Tracked::Missing), Some("missing"));
    assert_eq!(name(Tracked::Unknown), None);
}

#[test]
fn one_that_has_a_state_is_enough() {
    let mut watch = TrackedWatch::default();
    look(&mut watch, 1, true, 0, 0);
    assert_eq!(look(&mut watch, 1, true, 100, 100), Tracked::Missing);
    assert_eq!(look(&mut watch, 1, true, 101, 100), Tracked::Seen);
    // Later packets may lack a state, because packets without a connection have none.
    assert_eq!(look(&mut watch, 1, true, 200, 199), Tracked::Seen);
    assert_eq!(name(Tracked::Seen), Some("seen"));
}

#[test]
fn another_policy_begins_anew() {
    let mut watch = TrackedWatch::default();
    look(&mut watch, 1, true, 0, 0);
    look(&mut watch, 1, true, 50, 40);
    assert_eq!(look(&mut watch, 2, false, 60, 40), Tracked::Unknown);
    assert_eq!(look(&mut watch, 2, false, 90, 40), Tracked::Unknown);
    assert_eq!(look(&mut watch, 3, true, 90, 40), Tracked::Unknown);
    assert_eq!(look(&mut watch, 3, true, 100, 50), Tracked::Missing);
}
