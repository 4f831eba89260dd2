// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests when packets are due, with invented figures.

use rust_firewall::guard::watch::{forget, look, settled, GuardWatch, LOOKS};
use rust_firewall::queue::proc::QueueFigures;

/// Returns the kernel's counters of a queue to which `offered` packets were sent, of which `waiting` wait.
fn figures(offered: u32, waiting: u32) -> QueueFigures {
    QueueFigures {
        offered,
        waiting,
        ..QueueFigures::default()
    }
}

/// Calls `look` `looks` times with the same counters. Checks that no call before the last one reports due packets, and
/// returns the result of the last call.
fn due_at_last(watch: &mut GuardWatch, found: &QueueFigures, looks: usize) -> Option<u32> {
    for _ in 1..looks {
        assert_eq!(look(watch, found, None), None);
    }
    look(watch, found, None)
}

#[test]
fn a_deadline_without_an_answer_is_a_stall() {
    let mut watch = GuardWatch::default();
    let (before, after) = (figures(105, 5), figures(105, 0));
    assert_eq!(due_at_last(&mut watch, &before, LOOKS + 1), Some(105));
    assert_eq!(settled(&mut watch, &before, &after), (5, true));
    assert_eq!(due_at_last(&mut watch, &after, 10), None);
}

#[test]
fn who_answers_or_has_nothing_to_do_does_not_stall() {
    let mut watch = GuardWatch::default();
    assert_eq!(due_at_last(&mut watch, &figures(100, 0), 10), None);
    // Between two looks the firewall answers one packet and one comes, so the number of waiting packets stays the same.
    for i in 0..20 {
        assert_eq!(look(&mut watch, &figures(110 + i, 10), None), None);
    }
}

#[test]
fn packets_that_came_later_are_due_later() {
    let mut watch = GuardWatch::default();
    let mut found = figures(100, 0);
    assert_eq!(look(&mut watch, &found, None), None);
    // From now on, one packet comes before each look.
    for _ in 0..LOOKS {
        found.offered += 1;
        found.waiting += 1;
        assert_eq!(look(&mut watch, &found, None), None);
    }
    for i in 1..5 {
        found.offered += 1;
        found.waiting += 1;
        assert_eq!(look(&mut watch, &found, None), Some(100 + i));
        let mut after = found;
        after.waiting -= 1;
        assert_eq!(settled(&mut watch, &found, &after), (1, i == 1));
        found = after;
    }
}

#[test]
fn after_progress_it_is_another_stall() {
    let mut watch = GuardWatch::default();
    let found = figures(5, 5);
    assert_eq!(due_at_last(&mut watch, &found, LOOKS + 1), Some(5));
    settled(&mut watch, &found, &figures(5, 0));
    let found = figures(8, 2); // the firewall answered one of three packets
    assert_eq!(due_at_last(&mut watch, &found, LOOKS + 1), Some(8));
    let after = figures(9, 0); // one packet arrived meanwhile, and was answered as well
    assert_eq!(settled(&mut watch, &found, &after), (3, true));
}

#[test]
fn what_is_dropped_meanwhile_was_not_answered() {
    let mut watch = GuardWatch::default();
    for i in 0..=LOOKS as u32 {
        let full = QueueFigures {
            user_drop: 50 * i,
            ..figures(100 + 50 * i, 20)
        };
        let expected = (i == LOOKS as u32).then_some(100);
        assert_eq!(look(&mut watch, &full, None), expected);
    }
}

#[test]
fn what_passes_unseen_was_not_answered_while_the_head_stays() {
    let mut watch = GuardWatch::default();
    for i in 0..=LOOKS as u32 {
        let expected = (i == LOOKS as u32).then_some(100);
        let full = figures(100 + 50 * i, 20);
        assert_eq!(look(&mut watch, &full, Some(81)), expected);
    }
    for i in 0..10 {
        let full = figures(1000 + 50 * i, 20);
        assert_eq!(look(&mut watch, &full, Some(82 - i % 2)), None);
    }
}

#[test]
fn counts_wrap() {
    let mut watch = GuardWatch::default();
    let (before, after) = (figures(3, 8), figures(4, 2));
    assert_eq!(due_at_last(&mut watch, &before, LOOKS + 1), Some(3));
    assert_eq!(settled(&mut watch, &before, &after), (7, true));
}

#[test]
fn who_did_not_run_can_not_judge() {
    let mut watch = GuardWatch::default();
    let found = figures(5, 5);
    assert_eq!(due_at_last(&mut watch, &found, LOOKS), None);
    forget(&mut watch);
    assert_eq!(due_at_last(&mut watch, &found, LOOKS + 1), Some(5));
}
