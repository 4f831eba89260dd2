// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers for the names that clients show, so that sets, maps and rules find them like other numbers.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use crate::engine::lookup::LookupRange;
use crate::names::{self, Names, NamesState};
use crate::policy::forest;
use crate::policy::hostname::{self, HostInterval, Hostnames};
use crate::policy::value::{self, SHORT_BYTES};
use crate::policy::Range;

/// Maximum number of ALPN protocols in a policy; each has a bit.
const PROTOCOLS_MAX: usize = 32;

/// Host names and ALPN protocols of a compiled policy.
#[derive(Clone, Debug, Default)]
pub struct HostNumbers {
    pub(crate) hostnames: Arc<Hostnames>,
    /// ALPN protocols as values of `Type::Alpn`; the n-th has bit n.
    protocols: Vec<u128>,
}

/// Creates the numbers of a policy's names. The names are shared with the policy.
pub fn make(hostnames: &Arc<Hostnames>) -> HostNumbers {
    HostNumbers {
        hostnames: Arc::clone(hostnames),
        protocols: Vec::new(),
    }
}

/// Returns the range of numbers that consists of the number of a policy's name and the numbers of all names below it.
/// - id: index of the name in the policy's table of names (`hostname`).
pub fn interval(numbers: &HostNumbers, id: u32) -> Range {
    let HostInterval { own, last } = hostname::interval(&numbers.hostnames, id);
    Range {
        low: own.into(),
        high: last.into(),
    }
}

/// Returns the number of a host name that a client has sent, or else the number of the nearest wildcard above it; 0 if
/// the policy has neither (`forest::find`).
pub fn find(numbers: &HostNumbers, name: &[u8]) -> u32 {
    forest::find(&numbers.hostnames, name)
}

/// Returns a mask with the bit of an ALPN protocol, and adds the protocol if it is new. None if the policy has
/// PROTOCOLS_MAX other protocols.
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

/// Returns the bits of the policy's ALPN protocols that a client offers.
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

/// Returns the numbers of a client's names in a compiled policy (`Compiled::hosts`): `DecideInput::host_number` and
/// `alpn_bits`. Both are 0 unless the names are known. They change only if the names or the policy change.
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

/// Adds a piece of an interval, unless it is empty. Extends the previous piece instead if the new piece continues it
/// with the same value.
fn add_piece(pieces: &mut Vec<LookupRange>, low: u128, high: u128, value: u32) {
    if low > high {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.value == value && last.high + 1 == low => last.high = high,
        _ => pieces.push(LookupRange { low, high, value }),
    }
}

/// Splits nested intervals into disjoint intervals. Each number keeps the value of the innermost interval that contains
/// it. Adjacent intervals of one value are joined.
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
