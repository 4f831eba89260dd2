// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the choice how to wait (receive again, yield, sleep or poll), with invented clock times.

use nix::time::{clock_gettime, ClockId};
use rust_firewall::worker::wait::{clock, init, next, woken, Wait, WaitAction, WINDOW_MESSAGES};

const BATCH: u32 = 64;
const US: u64 = 1000;
const MS: u64 = 1000 * US;
const START: u64 = 1_000_000 * MS;

fn fast() -> Wait {
    init(BATCH, 50, 60, START)
}

/// Starts a flood: delivers one message every 2 us until the rate window is full. Returns the time after it.
fn flood(wait: &mut Wait) -> u64 {
    let mut now = START;
    for _ in 0..WINDOW_MESSAGES {
        now += 2 * US;
        next(wait, now, 1);
    }
    assert!(wait.flood);
    now
}

#[test]
fn a_full_batch_looks_again_at_once() {
    let mut wait = fast();
    assert_eq!(next(&mut wait, START, BATCH), WaitAction::Again);
    assert_eq!(next(&mut wait, START + 10 * MS, BATCH), WaitAction::Again);
}

#[test]
fn without_traffic_it_spins_once_and_then_polls() {
    let mut wait = fast();
    assert_eq!(next(&mut wait, START, 1), WaitAction::Yield);
    assert_eq!(next(&mut wait, START + 50 * US - 1, 0), WaitAction::Yield);
    assert_eq!(next(&mut wait, START + 50 * US, 0), WaitAction::Poll);
}

#[test]
fn spinning_lasts_from_the_last_message() {
    let mut wait = fast();
    next(&mut wait, START, 1);
    assert_eq!(next(&mut wait, START + 40 * US, 1), WaitAction::Yield);
    assert_eq!(next(&mut wait, START + 89 * US, 0), WaitAction::Yield);
    assert_eq!(next(&mut wait, START + 90 * US, 0), WaitAction::Poll);
}

#[test]
fn no_spin_polls_at_once() {
    let mut wait = init(BATCH, 0, 0, START);
    assert_eq!(next(&mut wait, START, 1), WaitAction::Poll);
    woken(&mut wait, START + 1);
    assert_eq!(next(&mut wait, START + 1, 0), WaitAction::Poll);
}

#[test]
fn a_long_sleep_halves_the_budget_down_to_nothing() {
    let mut wait = fast();
    let mut now = START;
    let mut budgets = Vec::new();
    for _ in 0..7 {
        next(&mut wait, now, 1);
        now += 50 * US;
        assert_eq!(next(&mut wait, now, 0), WaitAction::Poll);
        now += MS;
        woken(&mut wait, now);
        budgets.push(wait.budget_ns);
    }
    assert_eq!(budgets, [25_000, 12_500, 6_250, 3_125, 1_562, 0, 0]);
    assert_eq!(next(&mut wait, now, 1), WaitAction::Poll);
}

#[test]
fn a_short_sleep_sets_the_budget_back() {
    let mut wait = fast();
    wait.budget_ns = 0;
    assert_eq!(next(&mut wait, START, 1), WaitAction::Poll);
    woken(&mut wait, START + 50 * US - 1);
    assert_eq!(wait.budget_ns, 50 * US);
}

#[test]
fn a_sleep_as_long_as_the_spin_changes_nothing() {
    let mut wait = fast();
    wait.budget_ns = 30 * US;
    next(&mut wait, START, 0);
    next(&mut wait, START + 40 * US, 0);
    woken(&mut wait, START + 90 * US);
    assert_eq!(wait.budget_ns, 30 * US);
}

#[test]
fn a_spin_that_found_something_keeps_the_whole_budget() {
    let mut wait = fast();
    wait.budget_ns = 10 * US;
    assert_eq!(next(&mut wait, START, 1), WaitAction::Yield);
    next(&mut wait, START + 5 * US, 1);
    assert_eq!(wait.budget_ns, 50 * US);
}

#[test]
fn messages_that_were_not_spun_for_leave_the_budget() {
    let mut wait = fast();
    wait.budget_ns = 10 * US;
    next(&mut wait, START, BATCH);
    next(&mut wait, START + US, BATCH);
    assert_eq!(wait.budget_ns, 10 * US);
}

#[test]
fn a_budget_of_a_microsecond_is_kept_and_a_smaller_one_is_none() {
    for (budget_ns, expected) in [(2000, 1000), (1999, 0)] {
        let mut wait = fast();
        wait.budget_ns = budget_ns;
        next(&mut wait, START + MS, 0);
        woken(&mut wait, START + 2 * MS);
        assert_eq!(wait.budget_ns, expected);
    }
}

#[test]
fn a_flood_lets_packets_gather() {
    let mut wait = fast();
    let now = flood(&mut wait);
    assert_eq!(next(&mut wait, now + 2 * US, 1), WaitAction::Sleep);
    assert_eq!(wait.coalesce_ns, 60 * US);
    assert_eq!(next(&mut wait, now + 70 * US, 30), WaitAction::Sleep);
}

#[test]
fn a_full_batch_in_a_flood_looks_again() {
    let mut wait = fast();
    let now = flood(&mut wait);
    assert_eq!(next(&mut wait, now + US, BATCH), WaitAction::Again);
}

#[test]
fn a_sleep_that_brought_nothing_ends_the_flood() {
    let mut wait = fast();
    let now = flood(&mut wait);
    assert_eq!(next(&mut wait, now, 1), WaitAction::Sleep);
    assert_eq!(next(&mut wait, now + 60 * US, 0), WaitAction::Poll);
    assert!(!wait.flood);
    assert_eq!((wait.window_ns, wait.window_messages), (now + 60 * US, 0));
}

#[test]
fn a_lower_rate_ends_the_flood() {
    let mut wait = fast();
    let mut now = flood(&mut wait);
    for _ in 0..WINDOW_MESSAGES {
        now += 20 * US;
        next(&mut wait, now, 1);
    }
    assert!(!wait.flood);
}

#[test]
fn exactly_the_limit_is_no_flood() {
    let mut wait = fast();
    next(
        &mut wait,
        START + WINDOW_MESSAGES * 10 * US,
        WINDOW_MESSAGES as u32,
    );
    assert!(!wait.flood);
    let mut wait = fast();
    next(
        &mut wait,
        START + WINDOW_MESSAGES * 10 * US - 1,
        WINDOW_MESSAGES as u32,
    );
    assert!(wait.flood);
}

#[test]
fn a_rate_is_not_told_from_fewer_messages() {
    let mut wait = fast();
    next(&mut wait, START + 1, WINDOW_MESSAGES as u32 - 1);
    assert!(!wait.flood);
}

#[test]
fn without_coalescing_a_flood_is_spun_through() {
    let mut wait = init(BATCH, 50, 0, START);
    let now = flood(&mut wait);
    assert_eq!(next(&mut wait, now, 1), WaitAction::Yield);
    assert_eq!(next(&mut wait, now + 50 * US, 0), WaitAction::Poll);
}

#[test]
fn a_batch_of_one_is_always_full() {
    let mut wait = init(1, 50, 60, START);
    assert_eq!(next(&mut wait, START, 1), WaitAction::Again);
    assert_eq!(next(&mut wait, START + US, 0), WaitAction::Yield);
}

#[test]
fn the_clock_is_the_monotonic_one_in_nanoseconds() {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let now_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    assert!((now_ns..now_ns + 1000 * MS).contains(&clock()));
}
