// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares limits with the arithmetic of nft_limit.c. Tests quotas and counters, also with several threads.

use std::thread;

use crate::support::engine::{engine, Engine, Random};
use rust_firewall::engine::compiled::{FlowLimit, FlowQuota};
use rust_firewall::engine::flow::{self, FlowCounter};

const SECOND: u64 = 1_000_000_000;
const THREADS: u32 = 4;

/// Returns a policy with one limit, one quota, two counters and a log statement.
fn made() -> Engine {
    engine(
        "table ip t {\n chain c {\n limit rate 1/second counter packets 7 bytes 8\n quota 9 bytes \
         used 3 bytes counter log\n }\n}\n",
        false,
    )
}

/// State of a limit of the kernel, which is evaluated like nft_limit_eval.
struct Kernel {
    last: u64,
    tokens: u64,
    most: u64,
    over: bool,
}

impl Kernel {
    fn holds(&mut self, cost: u64, now: u64) -> bool {
        let tokens = (self.tokens + now - self.last).min(self.most);
        self.last = now;
        match tokens.checked_sub(cost) {
            Some(left) => {
                self.tokens = left;
                !self.over
            }
            None => {
                self.tokens = tokens;
                self.over
            }
        }
    }
}

#[test]
fn limits_hold_as_in_the_kernel() {
    let mut random = Random(3);
    let mut held = 0;
    for round in 0..500 {
        let (of_bytes, over) = (round % 2 == 1, round % 3 == 1);
        let unit_s = [1, 60, 3600][random.below(3) as usize];
        let rate = u64::from(1 + random.below(if of_bytes { 5000 } else { 50 }));
        let burst = u64::from(random.below(10) + u32::from(!of_bytes));
        let nsecs = unit_s * SECOND;
        let most = match of_bytes {
            true => nsecs * (rate + burst) / rate,
            false => nsecs / rate * burst,
        };
        let limit = FlowLimit {
            nsecs,
            rate,
            size: most as i64,
            cost: (nsecs / rate) as i64,
            of_bytes,
            over,
        };
        let engine = made();
        let mut now = random.next() % (1 << 50);
        let mut kernel = Kernel {
            last: now,
            tokens: most,
            most,
            over,
        };
        for _ in 0..200 {
            let bytes = random.below(1500);
            let cost = match of_bytes {
                true => nsecs * u64::from(bytes) / rate,
                false => nsecs / rate,
            };
            let holds = flow::limit_holds(&engine.flow, 0, &limit, bytes, now);
            assert_eq!(holds, kernel.holds(cost, now), "{limit:?} at {now}");
            held += u32::from(holds);
            now += random.next() % (2 * nsecs / rate * if of_bytes { 700 } else { 1 });
        }
    }
    assert!((20_000..80_000).contains(&held), "{held}");
}

#[test]
fn a_clock_that_begins_at_0_or_goes_back_does_no_harm() {
    let limit = FlowLimit {
        nsecs: SECOND,
        rate: 1,
        size: 2 * SECOND as i64,
        cost: SECOND as i64,
        of_bytes: false,
        over: false,
    };
    let engine = made();
    let holds = |now| flow::limit_holds(&engine.flow, 0, &limit, 1, now);
    assert_eq!([holds(0), holds(0), holds(0)], [true, true, false]);
    assert!(holds(SECOND));
    assert!(!holds(SECOND / 2));
    assert!(!holds(0));
    assert!(holds(2 * SECOND));
    assert!(holds(u64::MAX));
}

#[test]
fn packets_that_cost_more_than_a_word_do_not_fit() {
    let limit = FlowLimit {
        nsecs: 604_800 * SECOND,
        rate: 1,
        size: i64::MAX / 4,
        cost: 0,
        of_bytes: true,
        over: false,
    };
    let engine = made();
    let holds = |bytes| flow::limit_holds(&engine.flow, 0, &limit, bytes, 0);
    assert_eq!([holds(u32::MAX), holds(1), holds(0)], [true, false, true]);
}

#[test]
fn quotas_hold_until_they_are_exceeded() {
    for over in [false, true] {
        let engine = made();
        let quota = FlowQuota {
            bytes: 9,
            used: 3,
            over,
        };
        let holds = |bytes| flow::quota_holds(&engine.flow, 0, &quota, bytes) != over;
        // 3 bytes are used at the start, so that 6 bytes are left. Later packets exceed the quota, but their bytes are
        // counted.
        assert_eq!(
            [holds(5), holds(1), holds(1), holds(0)],
            [true, true, false, false]
        );
    }
}

#[test]
fn threads_share_a_limit_and_a_quota_to_the_last_token() {
    let limit = FlowLimit {
        nsecs: SECOND,
        rate: 1,
        size: 1000 * SECOND as i64,
        cost: SECOND as i64,
        of_bytes: false,
        over: false,
    };
    let quota = FlowQuota {
        bytes: 3 + 2000,
        used: 3,
        over: false,
    };
    let engine = made();
    let (limited, used): (u32, u32) = thread::scope(|scope| {
        let run = || {
            let limited = (0..1000).filter(|_| flow::limit_holds(&engine.flow, 0, &limit, 1, 5));
            let used = (0..1000).filter(|_| flow::quota_holds(&engine.flow, 0, &quota, 1));
            (limited.count() as u32, used.count() as u32)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let sums = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        sums.fold((0, 0), |sum, (limited, used)| {
            (sum.0 + limited, sum.1 + used)
        })
    });
    assert_eq!((limited, used), (1000, 2000));
}

#[test]
fn counters_are_the_workers_own_and_are_summed() {
    let engine = made();
    let other = flow::counters_make(&engine.compiled);
    flow::count(&engine.counters, 1, 100);
    flow::count(&engine.counters, 1, u32::MAX);
    flow::count(&other, 1, 5);
    flow::log(&other, 0);
    let mut sum = FlowCounter::default();
    flow::sum(&engine.counters, 1, &mut sum);
    flow::sum(&other, 1, &mut sum);
    let bytes = 105 + u64::from(u32::MAX);
    assert_eq!(sum, FlowCounter { packets: 3, bytes });
    assert_eq!(engine.counter(0), (0, 0));
    assert_eq!(flow::logged(&engine.counters, 0), 0);
    assert_eq!(flow::logged(&other, 0), 1);
}
