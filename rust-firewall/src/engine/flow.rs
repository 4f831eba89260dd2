// SPDX-License-Identifier: GPL-2.0-or-later
//! State that outlives a packet: limits and quotas, which all workers share (one atomic word each, no lock), and
//! counters, of which each worker has its own.
#![deny(clippy::indexing_slicing)]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

use crate::engine::compiled::{Compiled, FlowLimit, FlowQuota, LIMIT_SIZE_MAX};

/// Number of counters per cache line.
const LINE_COUNTERS: usize = 4;
/// Number of counters of log statements per cache line.
const LINE_LOGS: usize = 8;

/// State of a limit or a quota, in a cache line of its own. A rule that both the old and the new policy have uses the
/// same word in both, so that no packet is left uncounted while workers change policies.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct FlowWord<Atomic>(pub Atomic);

/// State of limits and quotas.
#[derive(Debug, Default)]
pub struct Flow {
    /// Time since which the bucket of each limit has been filling, in nanoseconds of the monotonic clock.
    pub limits: Vec<Arc<FlowWord<AtomicI64>>>,
    /// Number of bytes that each quota has used.
    pub quotas: Vec<Arc<FlowWord<AtomicU64>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounter {
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct LiveCounter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct CounterLine([LiveCounter; LINE_COUNTERS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct LogLine([AtomicU64; LINE_LOGS]);

/// Counters of one worker. Only its thread writes them; any thread may read them. They are numbered as by `compile`.
#[derive(Debug, Default)]
pub struct FlowCounters {
    /// Counters in complete cache lines, so that workers share no line.
    counters: Vec<CounterLine>,
    /// Number of packets that each log statement has logged.
    logged: Vec<LogLine>,
}

/// A compiled policy with the state that outlives a packet: limits, quotas and counters.
#[derive(Clone, Copy, Debug)]
pub struct DecidePolicy<'a> {
    pub compiled: &'a Compiled,
    pub flow: &'a Flow,
    /// Counters of the calling thread.
    pub counters: &'a FlowCounters,
}

/// Creates the state of a policy: full buckets, and quotas with the used bytes from the policy's text.
pub fn make(compiled: &Compiled) -> Flow {
    // Sets each bucket to full: its filling began so long ago that it is full at any clock time.
    let full = |_| Arc::new(FlowWord(AtomicI64::new(i64::MIN / 2)));
    let used = |quota: &FlowQuota| Arc::new(FlowWord(AtomicU64::new(quota.used)));
    Flow {
        limits: compiled.limits.iter().map(full).collect(),
        quotas: compiled.quotas.iter().map(used).collect(),
    }
}

/// Creates counters with the value 0; `sum` does not include the initial values in the policy's text.
pub fn counters_make(compiled: &Compiled) -> FlowCounters {
    let counters = compiled.counters.len().div_ceil(LINE_COUNTERS);
    let logs = compiled.logs.len().div_ceil(LINE_LOGS);
    FlowCounters {
        counters: (0..counters).map(|_| CounterLine::default()).collect(),
        logged: (0..logs).map(|_| LogLine::default()).collect(),
    }
}

/// Adds to a number that only this thread writes.
fn add(number: &AtomicU64, more: u64) {
    number.store(
        number.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

fn counter_at(counters: &FlowCounters, counter: u32) -> Option<&LiveCounter> {
    let counter = counter as usize;
    let line = counters.counters.get(counter / LINE_COUNTERS)?;
    line.0.get(counter % LINE_COUNTERS)
}

fn log_at(counters: &FlowCounters, log: u32) -> Option<&AtomicU64> {
    let log = log as usize;
    counters.logged.get(log / LINE_LOGS)?.0.get(log % LINE_LOGS)
}

/// Counts a packet in a counter of the calling worker.
pub fn count(counters: &FlowCounters, counter: u32, bytes: u32) {
    if let Some(counter) = counter_at(counters, counter) {
        add(&counter.packets, 1);
        add(&counter.bytes, bytes.into());
    }
}

/// Counts a packet in a log statement's counter.
pub fn log(counters: &FlowCounters, log: u32) {
    if let Some(logged) = log_at(counters, log) {
        add(logged, 1);
    }
}

/// Adds the value of a worker's counter to sum. Any thread may call this function.
pub fn sum(counters: &FlowCounters, counter: u32, sum: &mut FlowCounter) {
    if let Some(counter) = counter_at(counters, counter) {
        sum.packets = sum
            .packets
            .wrapping_add(counter.packets.load(Ordering::Relaxed));
        sum.bytes = sum
            .bytes
            .wrapping_add(counter.bytes.load(Ordering::Relaxed));
    }
}

/// Returns the number of packets that a worker has counted for a log statement. Any thread may call this function.
pub fn logged(counters: &FlowCounters, log: u32) -> u64 {
    log_at(counters, log).map_or(0, |logged| logged.load(Ordering::Relaxed))
}

/// Returns the cost of a packet in nanoseconds of a limit's bucket.
fn limit_cost(limit: &FlowLimit, bytes: u32) -> i64 {
    if !limit.of_bytes {
        return limit.cost;
    }
    let cost = u128::from(limit.nsecs) * u128::from(bytes);
    let cost = cost.checked_div(limit.rate.into()).unwrap_or(u128::MAX);
    i64::try_from(cost).map_or(LIMIT_SIZE_MAX, |cost| cost.min(LIMIT_SIZE_MAX))
}

/// Evaluates a limit: removes a packet's tokens from the limit's bucket, if the bucket has enough. Returns true if the
/// statement holds; `over` reverses the result.
/// - bytes: length of the packet; it counts only for a limit of bytes.
pub fn limit_holds(flow: &Flow, index: u32, limit: &FlowLimit, bytes: u32, now_ns: u64) -> bool {
    let Some(FlowWord(empty_ns)) = flow.limits.get(index as usize).map(Arc::as_ref) else {
        return false;
    };
    let cost = limit_cost(limit, bytes);
    let now = (now_ns & i64::MAX as u64) as i64;
    let mut seen = empty_ns.load(Ordering::Relaxed);
    // The number of tokens is the time since the bucket was empty in nanoseconds, at most its size.
    loop {
        let empty = seen.max(now.wrapping_sub(limit.size));
        if now.wrapping_sub(empty) < cost {
            return limit.over;
        }
        let left = empty.wrapping_add(cost);
        match empty_ns.compare_exchange_weak(seen, left, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return !limit.over,
            Err(now_seen) => seen = now_seen,
        }
    }
}

/// Returns the number of tokens in a limit's bucket: from 0 to its size. A token is a nanosecond.
pub fn limit_tokens(word: &FlowWord<AtomicI64>, limit: &FlowLimit, now_ns: u64) -> i64 {
    let now = (now_ns & i64::MAX as u64) as i64;
    let since = now.wrapping_sub(word.0.load(Ordering::Relaxed));
    since.min(limit.size).max(0)
}

/// Fills the bucket of a limit to the same fraction of its size as another bucket.
/// - tokens: tokens of the other bucket, from 0 to size.
/// - size: size of the other bucket.
pub fn limit_fill(
    word: &FlowWord<AtomicI64>,
    limit: &FlowLimit,
    tokens: i64,
    size: i64,
    now_ns: u64,
) {
    let now = (now_ns & i64::MAX as u64) as i64;
    let mut tokens = tokens;
    if limit.size != size {
        let parts = i128::from(tokens) * i128::from(limit.size);
        tokens = parts.checked_div(size.into()).unwrap_or(0) as i64;
    }
    word.0.store(now.wrapping_sub(tokens), Ordering::Relaxed);
}

/// Adds a packet's bytes to the used bytes of a quota, and evaluates the quota. Returns true if the statement holds:
/// with `over`, if the used bytes exceed the quota; without `over`, if they do not.
pub fn quota_holds(flow: &Flow, index: u32, quota: &FlowQuota, bytes: u32) -> bool {
    let Some(FlowWord(used)) = flow.quotas.get(index as usize).map(Arc::as_ref) else {
        return false;
    };
    let bytes = u64::from(bytes);
    let used = used.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    (used > quota.bytes) == quota.over
}
