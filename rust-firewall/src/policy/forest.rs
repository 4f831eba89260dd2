// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers for the host names of a policy that show which wildcard contains which names.
//!
//! Theory of operation: the parent of a name in the policy is the nearest wildcard above it: `*.b.c` is above `a.b.c`,
//! and `*.c` is above both. So the names form a forest. The names are numbered from 1 so that a wildcard's number is
//! directly followed by the numbers of all names below it. Thus a wildcard has an interval of numbers, which contains
//! the intervals of all names below it. A host name in a packet has the number of the equal name in the policy;
//! otherwise that of the nearest wildcard above it; otherwise 0.
#![deny(clippy::indexing_slicing)]

use crate::names;
use crate::policy::hostname::{self, HostInterval, Hostnames};

/// Maximum number of labels of a name, plus one.
const LABELS_MAX: usize = names::HOST_BYTES / 2 + 2;
/// Parent of a name that has no wildcard above it.
const NONE: u32 = u32::MAX;

fn labels_of(name: &[u8]) -> usize {
    1 + name.iter().filter(|byte| **byte == b'.').count()
}

/// Returns the nearest wildcard above a name, as the end of its record (an offset in hostnames.records); None if there
/// is no such wildcard.
fn above(hostnames: &Hostnames, name: &[u8]) -> Option<u32> {
    // Offsets in `name` of the parent domains that have as many labels as some wildcard.
    let mut starts = [0; LABELS_MAX];
    let (mut count, mut labels) = (0, 1);
    for (at, byte) in name.iter().enumerate().rev() {
        if *byte != b'.' {
            continue;
        }
        if labels == LABELS_MAX {
            break;
        }
        if hostnames.depths >> labels & 1 != 0 {
            *starts.get_mut(count)? = (at + 1) as u8;
            count += 1;
        }
        labels += 1;
    }
    let mut starts = starts.get(..count)?.iter().rev();
    starts.find_map(|start| hostname::search(hostnames, name.get(usize::from(*start)..)?, true))
}

/// Returns the names (their numbers in `hostnames`) sorted by the number of their labels, fewest first.
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

/// Counts, for each name, the name itself and all names below it. Stores this count in the interval's `last`.
fn add_sizes(sorted: &[u32], parents: &[u32], intervals: &mut [HostInterval]) {
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

/// Assigns each name its interval. Names with more labels come later in `sorted`, so a name's parent already has its
/// interval.
/// - free: scratch array: the next free number in each name's interval.
fn number(sorted: &[u32], parents: &[u32], intervals: &mut [HostInterval], free: &mut [u32]) {
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
            *interval = HostInterval { own, last };
            *free = own + 1;
        }
    }
}

/// Records which numbers of labels the wildcards have (hostnames.depths). Returns the parent of each name.
fn find_parents(hostnames: &mut Hostnames) -> Vec<u32> {
    let count = hostname::count(hostnames);
    for id in 0..count {
        let (name, wildcard) = hostname::get(hostnames, id);
        let bit = u128::from(wildcard) << (labels_of(name) & 127);
        hostnames.depths |= bit;
    }
    let parent = |id| above(hostnames, hostname::get(hostnames, id).0);
    let id_at = |place| hostname::id_at(hostnames, place);
    (0..count)
        .map(|id| parent(id).map_or(NONE, id_at))
        .collect()
}

/// Assigns each name its interval: its own number and the numbers of all names below it. No name may be added
/// afterwards.
pub fn make(hostnames: &mut Hostnames) {
    let count = hostname::count(hostnames) as usize;
    let parents = find_parents(hostnames);
    let sorted = by_labels(hostnames);
    let mut intervals = vec![HostInterval::default(); count];
    add_sizes(&sorted, &parents, &mut intervals);
    let mut free = vec![0; count];
    number(&sorted, &parents, &mut intervals, &mut free);
    for (id, interval) in (0..).zip(intervals) {
        hostname::set_interval(hostnames, id, interval);
    }
}

/// Returns the number of a host name in the policy, or else the number of the nearest wildcard above it. Returns 0 if
/// the policy has neither.
/// - name: host name that a client has sent, or that a DNS reply is about, in lower case (ASCII), without a final dot.
pub fn find(hostnames: &Hostnames, name: &[u8]) -> u32 {
    let place = hostname::search(hostnames, name, false).or_else(|| above(hostnames, name));
    place.map_or(0, |place| hostname::interval_at(hostnames, place).own)
}
