// SPDX-License-Identifier: GPL-2.0-or-later
//! What a compiled policy makes of the names that clients show, so that sets, maps and rules find them as they find
//! other numbers.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use crate::engine::lookup::LookupRange;
use crate::names::{self, Names, NamesState};
use crate::policy::forest;
use crate::policy::hostname::{self, HostInterval, Hostnames};
use crate::policy::value::{self, SHORT_BYTES};
use crate::policy::Range;

/// Protocols of ALPN in a policy, each of which has a bit.
const PROTOCOLS_MAX: usize = 32;

/// The names of a policy as the engine has them.
#[derive(Clone, Debug, Default)]
pub struct HostNumbers {
    hostnames: Arc<Hostnames>,
    /// Protocols of ALPN as values of `Type::Alpn`; the n-th has bit n.
    protocols: Vec<u128>,
}

/// Stores the names of a policy, which are shared.
pub fn make(hostnames: &Arc<Hostnames>) -> HostNumbers {
    HostNumbers {
        hostnames: Arc::clone(hostnames),
        protocols: Vec::new(),
    }
}

/// The numbers of a name of the policy, and of all that lies in it.
pub fn interval(numbers: &HostNumbers, id: u32) -> Range {
    let HostInterval { own, last } = hostname::interval(&numbers.hostnames, id);
    Range {
        low: own.into(),
        high: last.into(),
    }
}

/// The number of a client's name, as `forest::find`.
pub fn find(numbers: &HostNumbers, name: &[u8]) -> u32 {
    forest::find(&numbers.hostnames, name)
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

/// Numbers of a client's names in a compiled policy (`Compiled::hosts`): `DecideInput::host_number` and `alpn_bits`, which stay the same as
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
