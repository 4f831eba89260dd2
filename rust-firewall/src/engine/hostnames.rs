// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers for the names of hosts, so that sets, maps and rules find them as they find other numbers.
//!
//! Theory of operation: a name of the policy lies in the nearest wildcard above it, so the names are a
//! forest. They are numbered from 1 so that a wildcard's number comes before those of all that lie in
//! it, which follow it without a gap: a wildcard is an interval of numbers, and what is below it an
//! interval or a number within. A client's name has the number of the policy's name that it is, else
//! that of the nearest wildcard above it, else 0.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use crate::engine::lookup::LookupRange;
use crate::names::{self, Names, NamesState};
use crate::policy::hostname::{self, Hostnames};
use crate::policy::value::{self, SHORT_BYTES};
use crate::policy::Range;

/// Labels of a name, and one more.
const LABELS_MAX: usize = names::HOST_BYTES / 2 + 2;
/// Protocols of ALPN in a policy, each of which has a bit.
const PROTOCOLS_MAX: usize = 32;
/// A name that lies in no wildcard.
const NONE: u32 = u32::MAX;

/// The names of a policy as the engine has them.
#[derive(Clone, Debug, Default)]
pub struct HostNumbers {
    hostnames: Arc<Hostnames>,
    /// By the number in hostnames: the interval of numbers here.
    intervals: Vec<Interval>,
    /// Bit n: there is a wildcard of n labels.
    depths: u128,
    /// Protocols of ALPN as values of `Type::Alpn`; the n-th has bit n.
    protocols: Vec<u128>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    own: u32,
    last: u32,
}

fn labels_of(name: &[u8]) -> usize {
    1 + name.iter().filter(|byte| **byte == b'.').count()
}

/// The nearest wildcard above a name.
fn above(hostnames: &Hostnames, depths: u128, name: &[u8]) -> Option<u32> {
    // Of the names above it that may be wildcards.
    let mut starts = [0; LABELS_MAX];
    let (mut count, mut labels) = (0, 1);
    for (at, byte) in name.iter().enumerate().rev() {
        if *byte != b'.' {
            continue;
        }
        if labels == LABELS_MAX {
            break;
        }
        if depths >> labels & 1 != 0 {
            *starts.get_mut(count)? = (at + 1) as u8;
            count += 1;
        }
        labels += 1;
    }
    let mut starts = starts.get(..count)?.iter().rev();
    starts.find_map(|start| hostname::find(hostnames, name.get(usize::from(*start)..)?, true))
}

/// The names in the order of how many labels they have.
fn by_labels(hostnames: &Hostnames) -> Vec<u32> {
    let count = hostname::count(hostnames);
    let labels = |id: u32| labels_of(hostname::get(hostnames, id).0);
    let mut starts = vec![0; LABELS_MAX + 1];
    for id in 0..count {
        if let Some(start) = starts.get_mut(labels(id) + 1) {
            *start += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut sorted = vec![0; count as usize];
    for id in 0..count {
        let Some(start) = starts.get_mut(labels(id)) else {
            continue;
        };
        if let Some(place) = sorted.get_mut(*start) {
            *place = id;
        }
        *start += 1;
    }
    sorted
}

/// Counts what lies in each name, and the name: at first in `last`.
fn add_sizes(sorted: &[u32], parents: &[u32], intervals: &mut [Interval]) {
    for &id in sorted.iter().rev() {
        let Some(interval) = intervals.get_mut(id as usize) else {
            continue;
        };
        interval.last += 1;
        let size = interval.last;
        let parent = parents.get(id as usize).copied().unwrap_or(NONE);
        if let Some(parent) = intervals.get_mut(parent as usize) {
            parent.last += size;
        }
    }
}

/// Gives each name its interval. What has more labels comes later, so a name's parent has its own already.
/// - free: room for the next number that is free in each.
fn number(sorted: &[u32], parents: &[u32], intervals: &mut [Interval], free: &mut [u32]) {
    let mut next = 1;
    for &id in sorted {
        let size = intervals
            .get(id as usize)
            .map_or(0, |interval| interval.last);
        let parent = parents.get(id as usize).copied().unwrap_or(NONE);
        let place = free.get_mut(parent as usize).unwrap_or(&mut next);
        let own = *place;
        *place += size;
        if let (Some(interval), Some(free)) =
            (intervals.get_mut(id as usize), free.get_mut(id as usize))
        {
            let last = own + size - 1;
            *interval = Interval { own, last };
            *free = own + 1;
        }
    }
}

/// Finds the wildcards that there are, and the one above each name.
fn find_parents(numbers: &mut HostNumbers) -> Vec<u32> {
    let hostnames = &*numbers.hostnames;
    let count = hostname::count(hostnames);
    for id in 0..count {
        let (name, wildcard) = hostname::get(hostnames, id);
        numbers.depths |= u128::from(wildcard) << (labels_of(name) & 127);
    }
    let parent = |id| above(hostnames, numbers.depths, hostname::get(hostnames, id).0);
    (0..count).map(|id| parent(id).unwrap_or(NONE)).collect()
}

/// Numbers the names of a policy, which are shared.
pub fn make(hostnames: &Arc<Hostnames>) -> HostNumbers {
    let count = hostname::count(hostnames) as usize;
    let mut numbers = HostNumbers {
        hostnames: Arc::clone(hostnames),
        intervals: vec![Interval::default(); count],
        depths: 0,
        protocols: Vec::new(),
    };
    let parents = find_parents(&mut numbers);
    let sorted = by_labels(hostnames);
    add_sizes(&sorted, &parents, &mut numbers.intervals);
    let mut free = vec![0; count];
    number(&sorted, &parents, &mut numbers.intervals, &mut free);
    numbers
}

/// The numbers of a name of the policy, and of all that lies in it.
pub fn interval(numbers: &HostNumbers, id: u32) -> Range {
    let found = numbers.intervals.get(id as usize).copied();
    let Interval { own, last } = found.unwrap_or_default();
    Range {
        low: own.into(),
        high: last.into(),
    }
}

/// The number of a client's name; 0 = the policy has neither it nor a wildcard above it.
/// - name: in lower case (ASCII), without a dot at its end.
pub fn find(numbers: &HostNumbers, name: &[u8]) -> u32 {
    let hostnames = &*numbers.hostnames;
    let id =
        hostname::find(hostnames, name, false).or_else(|| above(hostnames, numbers.depths, name));
    let interval = id.and_then(|id| numbers.intervals.get(id as usize));
    interval.map_or(0, |interval| interval.own)
}

/// The bit of a protocol of ALPN, which is added if it is new; none if there is no more room.
pub fn add_protocol(numbers: &mut HostNumbers, protocol: u128) -> Option<u32> {
    let protocols = &mut numbers.protocols;
    let known = protocols.iter().position(|known| *known == protocol);
    let bit = known.unwrap_or(protocols.len());
    if bit == PROTOCOLS_MAX {
        return None;
    }
    if known.is_none() {
        protocols.push(protocol);
    }
    Some(1 << bit)
}

/// The bits of those protocols of the policy that a client offers.
fn offered(protocols: &[u128], names: &Names) -> u32 {
    let mut bits = 0;
    let mut rest = names
        .alpn
        .get(..names.alpn_length.into())
        .unwrap_or_default();
    while let Some((&length, behind)) = rest.split_first() {
        let Some((name, behind)) = behind.split_at_checked(length.into()) else {
            break;
        };
        rest = behind;
        if name.len() > SHORT_BYTES {
            continue;
        }
        let offer = value::short(name);
        let found = protocols.iter().position(|protocol| *protocol == offer);
        bits |= found.map_or(0, |bit| 1 << bit);
    }
    bits
}

/// What a compiled policy (`Compiled::hosts`) makes of what a client has shown: `DecideInput::host_number` and `alpn_bits`, which stay the same as
/// long as names and policy do.
pub fn resolve(numbers: &HostNumbers, names: &Names) -> (u32, u32) {
    if names.state != NamesState::Known {
        return (0, 0);
    }
    let host = names::host(names);
    let number = match host.is_empty() {
        true => 0,
        false => find(numbers, host),
    };
    (number, offered(&numbers.protocols, names))
}

/// Adds a piece of an interval, to the one before if it goes on with it.
fn add_piece(pieces: &mut Vec<LookupRange>, low: u128, high: u128, value: u32) {
    if low > high {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.value == value && last.high + 1 == low => last.high = high,
        _ => pieces.push(LookupRange { low, high, value }),
    }
}

/// Parts intervals that lie in one another: of each number the innermost that has it is left. Those of one
/// value that touch become one.
pub fn part(ranges: &mut Vec<LookupRange>) {
    ranges.sort_unstable_by_key(|range| (range.low, std::cmp::Reverse(range.high), range.value));
    let mut pieces = Vec::new();
    let mut open: Vec<LookupRange> = Vec::new();
    let mut at = 0;
    for range in ranges.iter() {
        while let Some(&top) = open.last().filter(|top| top.high < range.low) {
            open.pop();
            add_piece(&mut pieces, at, top.high, top.value);
            at = at.max(top.high + 1);
        }
        if let Some(top) = open.last().filter(|_| at < range.low) {
            add_piece(&mut pieces, at, range.low - 1, top.value);
        }
        at = range.low;
        open.push(*range);
    }
    while let Some(top) = open.pop() {
        add_piece(&mut pieces, at, top.high, top.value);
        at = at.max(top.high + 1);
    }
    *ranges = pieces;
}
