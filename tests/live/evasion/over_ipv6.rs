// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways of IPv6 only: extension headers (RFC 8200, section 4) between the address and the port.

use super::client::{Script, Segment};
use super::hello::Opening;
use super::net::HOPS;
use super::strategies::{cut, in_name, steps, Strategy};
use super::wire::{Outside, DESTINATION, FRAGMENT, HOP_BY_HOP};

fn behind(extensions: &[u8], segment: Segment) -> Segment {
    let outside = Outside {
        extensions: extensions.to_vec(),
        ..segment.outside.clone()
    };
    Segment { outside, ..segment }
}

/// Returns a client that sends the opening in two halves, both after the same extension headers.
fn halves(opening: &Opening, extensions: &[u8]) -> Option<Script> {
    let halves = cut(&opening.bytes, &[in_name(opening)]);
    steps(halves.into_iter().map(|half| behind(extensions, half)))
}

/// Returns a client that sends the opening in IPv6 fragments, after extension headers.
/// - of: number of bytes in each fragment.
fn fragments(opening: &Opening, of: usize, extensions: &[u8]) -> Option<Script> {
    let whole = behind(extensions, Segment::data(0, &opening.bytes));
    let outside = Outside {
        fragments_of: Some(of),
        ..whole.outside.clone()
    };
    steps([Segment { outside, ..whole }])
}

const fn way(
    name: &'static str,
    honest: bool,
    script: fn(&Opening, &Opening) -> Option<Script>,
) -> Strategy {
    Strategy {
        name,
        honest,
        script,
    }
}

pub const OVER_IPV6: &[Strategy] = &[
    way("destination options", true, |o, _| {
        halves(o, &[DESTINATION])
    }),
    way("hop-by-hop and destination options", true, |o, _| {
        halves(o, &[HOP_BY_HOP, DESTINATION])
    }),
    way(
        "destination options before the second half",
        true,
        |o, _| {
            let [first, second] = cut(&o.bytes, &[in_name(o)]).try_into().ok()?;
            steps([first, behind(&[DESTINATION], second)])
        },
    ),
    way("six destination options", false, |o, _| {
        halves(o, &[DESTINATION; 6])
    }),
    way("twelve destination options", false, |o, _| {
        halves(o, &[DESTINATION; 12])
    }),
    way(
        "a fragment header of a packet in one piece",
        false,
        |o, _| halves(o, &[FRAGMENT]),
    ),
    way(
        "destination options behind a fragment header of a packet in one piece",
        false,
        |o, _| halves(o, &[FRAGMENT, DESTINATION]),
    ),
    way(
        "fragments whose first has destination options only",
        false,
        |o, _| fragments(o, 8, &[DESTINATION]),
    ),
    way(
        "fragments that end in the TCP header, behind destination options",
        false,
        |o, _| fragments(o, 16, &[DESTINATION]),
    ),
    way(
        "decoy behind destination options, low hop limit",
        false,
        |o, d| {
            let mut decoy = behind(&[DESTINATION], Segment::data(0, &d.bytes));
            decoy.outside.ttl = HOPS - 1;
            steps([decoy, Segment::data(0, &o.bytes)])
        },
    ),
    way(
        "decoy behind a fragment header, low hop limit",
        false,
        |o, d| {
            let mut decoy = behind(&[FRAGMENT], Segment::data(0, &d.bytes));
            decoy.outside.ttl = HOPS - 1;
            steps([decoy, Segment::data(0, &o.bytes)])
        },
    ),
];
