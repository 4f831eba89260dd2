// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of a worker's counters, and of the ledger's arithmetic.

use rust_firewall::packet::verdict::Verdict;
use rust_firewall::queue::proc::QueueFigures;
use rust_firewall::worker::stats::{
    add, ledger_add, ledger_make, received, snapshot, Ledger, LiveStats, Stats, StatsReading,
    BEHIND_MAX,
};

/// Returns a reading of a worker that has received and accepted a number of packets.
fn reading(packets: u64, figures: QueueFigures) -> StatsReading {
    let mut after = Stats {
        received: packets,
        ..Stats::default()
    };
    after.verdicts[Verdict::Accept as usize] = packets;
    StatsReading {
        received_before: packets,
        figures,
        known: true,
        after,
        ..StatsReading::default()
    }
}

fn offered(offered: u32) -> QueueFigures {
    QueueFigures {
        offered,
        ..QueueFigures::default()
    }
}

fn closed(reading: &StatsReading) -> Ledger {
    ledger_make(reading, 0, 0, false)
}

#[test]
fn a_quiet_queue_reconciles() {
    let ledger = closed(&reading(0, offered(0)));
    assert_eq!(
        ledger,
        Ledger {
            known: true,
            reconciled: true,
            ..Ledger::default()
        }
    );
}

#[test]
fn all_received_and_answered_reconciles() {
    let ledger = ledger_make(&reading(1000, offered(1000)), 7, 0, false);
    assert_eq!(
        (ledger.number, ledger.offered, ledger.stats.received),
        (7, 1000, 1000)
    );
    assert!(ledger.reconciled);
}

#[test]
fn the_kernels_drops_are_known_losses() {
    let figures = QueueFigures {
        user_drop: 30,
        queue_full: 12,
        ..offered(130)
    };
    let ledger = closed(&reading(100, figures));
    assert_eq!(
        (ledger.offered, ledger.user_drop, ledger.queue_full),
        (130, 30, 12)
    );
    assert_eq!((ledger.lost, ledger.unseen, ledger.difference), (42, 0, 0));
    assert!(ledger.reconciled);
}

#[test]
fn a_full_queue_may_have_given_ids() {
    let full = |queue_full| QueueFigures {
        queue_full,
        ..offered(107)
    };
    let ledger = closed(&reading(100, full(7)));
    assert_eq!(
        (
            ledger.offered,
            ledger.lost,
            ledger.unseen,
            ledger.difference
        ),
        (107, 7, 0, 0)
    );
    assert!(ledger.reconciled);
    let ledger = closed(&reading(100, full(5)));
    assert_eq!((ledger.unseen, ledger.difference), (2, 2));
}

#[test]
fn what_waits_in_the_kernel_is_accounted_for() {
    let ledger = closed(&reading(
        100,
        QueueFigures {
            waiting: 5,
            ..offered(105)
        },
    ));
    assert_eq!(
        (ledger.waiting, ledger.unseen, ledger.difference),
        (5, 0, 0)
    );
    let ledger = closed(&reading(
        100,
        QueueFigures {
            waiting: 5,
            ..offered(103)
        },
    ));
    assert_eq!(
        (ledger.waiting, ledger.unseen, ledger.difference),
        (5, 0, 0)
    );
}

#[test]
fn unseen_packets_are_a_difference_unless_fail_is_open() {
    let figures = QueueFigures {
        waiting: 5,
        ..offered(125)
    };
    let ledger = ledger_make(&reading(100, figures), 0, 0, false);
    assert_eq!(
        (ledger.unseen, ledger.difference, ledger.reconciled),
        (20, 20, false)
    );
    let ledger = ledger_make(&reading(100, figures), 0, 0, true);
    assert_eq!(
        (ledger.unseen, ledger.difference, ledger.reconciled),
        (20, 0, true)
    );
}

#[test]
fn packets_without_a_verdict_are_a_difference_beyond_what_is_in_flight() {
    let mut reading = reading(100, offered(100));
    reading.after.verdicts[Verdict::Accept as usize] = 36;
    assert_eq!(ledger_make(&reading, 0, 64, false).difference, 0);
    assert_eq!(ledger_make(&reading, 0, 63, false).difference, 1);
    assert_eq!(ledger_make(&reading, 0, 0, false).difference, 64);
}

#[test]
fn more_verdicts_than_packets_are_a_difference_at_the_end() {
    let mut reading = reading(100, offered(100));
    reading.after.verdicts[Verdict::Drop as usize] = 3;
    assert_eq!(ledger_make(&reading, 0, 64, false).difference, 0);
    assert_eq!(ledger_make(&reading, 0, 0, false).difference, 3);
}

#[test]
fn messages_without_an_id_count_as_received_from_the_kernel() {
    let mut reading = reading(100, offered(104));
    reading.after.without_id = 4;
    reading.after.netlink = 9; // five of them have a packet
    reading.received_before = 104;
    let ledger = closed(&reading);
    assert_eq!(
        (ledger.offered, ledger.unseen, ledger.difference),
        (104, 0, 0)
    );
}

#[test]
fn more_received_than_offered_is_a_difference() {
    let ledger = closed(&reading(100, offered(90)));
    assert_eq!(
        (ledger.offered, ledger.difference, ledger.reconciled),
        (90, 10, false)
    );
}

#[test]
fn packets_received_between_the_readings_are_none() {
    let mut reading = reading(100, offered(95));
    reading.received_before = 90;
    let ledger = ledger_make(&reading, 0, 64, false);
    assert_eq!((ledger.offered, ledger.difference), (95, 0));
}

#[test]
fn offered_goes_on_where_the_kernels_count_wraps() {
    let packets = (1 << 32) + 500;
    let figures = QueueFigures {
        waiting: 10,
        ..offered(510)
    };
    let ledger = closed(&reading(packets, figures));
    assert_eq!(
        (ledger.offered, ledger.unseen, ledger.difference),
        (packets + 10, 0, 0)
    );

    // The kernel's count has wrapped; the received packets are still less than 2^32.
    let packets = (1 << 32) - 3;
    let ledger = closed(&reading(
        packets,
        QueueFigures {
            waiting: 5,
            ..offered(2)
        },
    ));
    assert_eq!(
        (ledger.offered, ledger.unseen, ledger.difference),
        (packets + 5, 0, 0)
    );
}

#[test]
fn user_drop_may_be_more_than_the_wrapped_count() {
    let packets = (1 << 32) - 50;
    let figures = QueueFigures {
        user_drop: 100,
        ..offered(50)
    };
    let ledger = closed(&reading(packets, figures));
    assert_eq!(
        (ledger.offered, ledger.unseen, ledger.difference),
        (packets + 100, 0, 0)
    );
}

#[test]
fn what_the_guard_answered_is_not_missed() {
    let mut reading = reading(100, offered(107));
    reading.stalled = 7;
    reading.unreceived = true;
    let ledger = ledger_make(&reading, 0, 0, false);
    assert_eq!((ledger.stalled, ledger.unseen), (7, 0));
    assert!(ledger.reconciled);
    reading.stalled = 5;
    let ledger = ledger_make(&reading, 0, 0, false);
    assert_eq!((ledger.unseen, ledger.difference), (2, 2));
    // After the stalled packets were received, they no longer explain missing packets.
    reading.unreceived = false;
    let ledger = ledger_make(&reading, 0, 0, false);
    assert_eq!(
        (ledger.stalled, ledger.unseen, ledger.difference),
        (5, 7, 7)
    );
    let mut sum = ledger.clone();
    ledger_add(&mut sum, &ledger);
    assert_eq!(sum.stalled, 10);
}

#[test]
fn fail_open_may_leave_most_packets_unseen() {
    let ledger = ledger_make(&reading(10, offered(4_000_000_000)), 0, 0, true);
    assert_eq!(
        (ledger.offered, ledger.unseen),
        (4_000_000_000, 3_999_999_990)
    );
    assert!(ledger.reconciled);
}

/// A ledger does not reconcile if the kernel's figures could not be read. With zeros as figures it would: with
/// fail-open most of 2^32 packets would count as unseen, and unseen packets are allowed.
#[test]
fn figures_that_could_not_be_read_do_not_reconcile() {
    let mut reading = reading(20_000_000, offered(0));
    reading.known = false;
    let ledger = ledger_make(&reading, 0, 0, true);
    assert!(!ledger.known && !ledger.reconciled);
    assert_eq!(
        (ledger.difference, ledger.unseen, ledger.offered),
        (0, 0, 0)
    );
    let mut sum = Ledger {
        known: true,
        reconciled: true,
        ..Ledger::default()
    };
    ledger_add(&mut sum, &ledger);
    assert!(!sum.known && !sum.reconciled);
}

#[test]
fn a_count_far_behind_is_a_wrap_and_one_near_is_not() {
    let packets = u64::from(BEHIND_MAX) * 2;
    let ledger = closed(&reading(packets, offered(BEHIND_MAX)));
    assert_eq!(
        (ledger.offered, ledger.difference),
        (BEHIND_MAX.into(), BEHIND_MAX.into())
    );
    let ledger = closed(&reading(packets, offered(BEHIND_MAX - 1)));
    assert_eq!(ledger.offered, (1 << 32) + u64::from(BEHIND_MAX) - 1);
}

#[test]
fn a_sum_adds_everything_up() {
    let mut first = reading(
        100,
        QueueFigures {
            user_drop: 1,
            waiting: 2,
            ..offered(103)
        },
    );
    first.after.bytes = 6400;
    first.after.malformed[5] = 3;
    first.after.refused = 4;
    let second = reading(
        50,
        QueueFigures {
            queue_full: 8,
            ..offered(60)
        },
    );
    let mut sum = Ledger {
        known: true,
        reconciled: true,
        ..Ledger::default()
    };
    ledger_add(&mut sum, &ledger_make(&first, 0, 0, false));
    assert!(sum.reconciled);
    ledger_add(&mut sum, &ledger_make(&second, 1, 0, false));
    assert_eq!(sum.stats.received, 150);
    assert_eq!(sum.stats.verdicts, [150, 0, 0, 0, 0, 0]);
    assert_eq!(
        (sum.stats.bytes, sum.stats.malformed[5], sum.stats.refused),
        (6400, 3, 4)
    );
    assert_eq!(
        (sum.offered, sum.waiting, sum.user_drop, sum.queue_full),
        (163, 2, 1, 8)
    );
    assert_eq!(
        (sum.lost, sum.unseen, sum.difference, sum.reconciled),
        (9, 2, 2, false)
    );
}

#[test]
fn a_snapshot_copies_every_counter() {
    let live = LiveStats::default();
    let counters: Vec<_> = [&live.received, &live.without_id]
        .into_iter()
        .chain([&live.netlink, &live.bytes])
        .chain(&live.verdicts)
        .chain(&live.malformed)
        .chain([
            &live.beyond_copy,
            &live.truncated,
            &live.overruns,
            &live.refused,
        ])
        .collect();
    for (value, counter) in (1..).zip(&counters) {
        add(counter, value);
        add(counter, 100);
    }
    let copy = snapshot(&live);
    assert_eq!((copy.received, copy.without_id), (101, 102));
    assert_eq!((copy.netlink, copy.bytes), (103, 104));
    assert_eq!(copy.verdicts, [105, 106, 107, 108, 109, 110]);
    assert_eq!((copy.malformed[0], copy.malformed[18]), (111, 129));
    assert_eq!(
        (
            copy.beyond_copy,
            copy.truncated,
            copy.overruns,
            copy.refused
        ),
        (130, 131, 132, 133)
    );
    assert_eq!(received(&live), 203);
}

#[test]
fn counters_of_two_workers_share_no_cache_line_pair() {
    let both: [LiveStats; 2] = Default::default();
    let distance = &raw const both[1] as usize - &raw const both[0].refused as usize;
    assert!(distance >= 8 && &raw const both[1] as usize % 128 == 0);
}
