// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that one side may count and the other not, and packets of connections that a twin with the whole policy sees
//! otherwise than one with the split policy.

use std::collections::{BTreeMap, BTreeSet};

use twinwall_judge::field::UDP;

use crate::compare::fate;
use crate::deviations::{is_authenticated, transport};

use super::sequence::Act;
use super::side::Report;

/// Returns the packets without a connection that are dropped before they reach the split policy, which doesn't count
/// them.
pub fn lost(acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
    let is_lost = |number: &u32| {
        reports[2].lost.contains(number) && fate(&reports[2].outcome, *number).is_stopped()
    };
    let numbers = acts.iter().map(|act| act.shot.number);
    numbers.filter(is_lost).collect()
}

/// Returns each packet before which a packet of the same connection was stopped on both sides. A twin drops it without
/// evaluating rules.
pub fn denied(acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
    let (mut later, mut denied) = (BTreeSet::new(), BTreeSet::new());
    for act in acts {
        let Some(connection) = act.connection else {
            continue;
        };
        let number = act.shot.number;
        let is_stopped = |side: usize| fate(&reports[side].outcome, number).is_stopped();
        if denied.contains(&connection) {
            later.insert(number);
        } else if is_stopped(0) && is_stopped(2) {
            denied.insert(connection);
        }
    }
    later
}

/// Returns the packets with an authentication header that the split policy queues for their names, or that belong to
/// no connection.
pub fn authenticated(acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
    let is_read =
        |number: &u32| reports[2].asked.contains(number) || reports[2].lost.contains(number);
    let is_it = |act: &&Act| is_authenticated(&act.shot.bytes) && is_read(&act.shot.number);
    acts.iter()
        .filter(is_it)
        .map(|act| act.shot.number)
        .collect()
}

/// Returns the packets that were stopped on both sides.
pub fn stopped(acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
    let is_stopped = |number: &u32| {
        let mut sides = [0, 2].into_iter();
        sides.all(|side| fate(&reports[side].outcome, *number).is_stopped())
    };
    let numbers = acts.iter().map(|act| act.shot.number);
    numbers.filter(is_stopped).collect()
}

/// Returns packets that are not the first of their connection, if the split policy queues no packet of the connection,
/// or no earlier packet, because the earlier packets have an authentication header.
pub fn unasked(acts: &[Act], reports: &[Report]) -> BTreeSet<u32> {
    let is_asked = |act: &&Act| reports[2].asked.contains(&act.shot.number);
    let asked: BTreeSet<u32> = acts
        .iter()
        .filter(is_asked)
        .filter_map(|act| act.connection)
        .collect();
    let (mut begun, mut is_seen) = (BTreeSet::new(), BTreeSet::new());
    let mut numbers = BTreeSet::new();
    for act in acts {
        let Some(connection) = act.connection else {
            continue;
        };
        let is_unasked = !asked.contains(&connection) || !is_seen.contains(&connection);
        if !begun.insert(connection) && is_unasked {
            numbers.insert(act.shot.number);
        }
        if is_asked(&act) || !is_authenticated(&act.shot.bytes) {
            is_seen.insert(connection);
        }
    }
    numbers
}

/// Returns the destination connection ID of a packet if it is a QUIC long header packet (RFC 8999, section 5.1).
fn quic_id(packet: &[u8]) -> Option<&[u8]> {
    const UDP_HEADER: usize = 8;
    let (protocol, offset) = transport(packet, |_| true);
    let (first, rest) = packet.get(offset + UDP_HEADER..)?.split_first()?;
    // Skips the version.
    let (length, id) = rest.get(4..)?.split_first()?;
    let is_long = protocol == UDP && first & 0xc0 == 0xc0;
    is_long.then(|| id.get(..usize::from(*length)))?
}

/// Returns the QUIC packets whose destination connection ID an earlier packet of another connection had.
pub fn reused(acts: &[Act]) -> BTreeSet<u32> {
    let (mut owners, mut numbers) = (BTreeMap::new(), BTreeSet::new());
    for act in acts {
        let Some(id) = quic_id(&act.shot.bytes) else {
            continue;
        };
        if *owners.entry(id).or_insert(act.connection) != act.connection {
            numbers.insert(act.shot.number);
        }
    }
    numbers
}
