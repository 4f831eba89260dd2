// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways of IPv6 only: extension headers (RFC 8200, section 4) between the address and the port.

use super::ways::{
    changed, evasive, halves, honest, later, low_ttl, spread, steps, whole, Datagram, Way,
};
use crate::evasion::wire::{DESTINATION, FRAGMENT, HOP_BY_HOP};

fn behind(datagram: &mut Datagram, extensions: &[u8]) {
    datagram.outside.extensions = extensions.to_vec();
}

pub const OVER_IPV6: &[Way] = &[
    honest("destination options", |o| {
        changed(o, |one| behind(one, &[DESTINATION]))
    }),
    honest("hop-by-hop and destination options", |o| {
        changed(o, |one| behind(one, &[HOP_BY_HOP, DESTINATION]))
    }),
    honest("destination options before the second half", |o| {
        let [first, mut second] = halves(o);
        second
            .iter_mut()
            .for_each(|one| behind(one, &[DESTINATION]));
        steps([first, second].concat())
    }),
    evasive("six destination options", |o| {
        changed(o, |one| behind(one, &[DESTINATION; 6]))
    }),
    evasive("twelve destination options", |o| {
        changed(o, |one| behind(one, &[DESTINATION; 12]))
    }),
    evasive("a fragment header of a packet in one piece", |o| {
        changed(o, |one| behind(one, &[FRAGMENT]))
    }),
    evasive(
        "destination options behind a fragment header of a packet in one piece",
        |o| changed(o, |one| behind(one, &[FRAGMENT, DESTINATION])),
    ),
    evasive("fragments whose first has destination options only", |o| {
        changed(o, |one| {
            behind(one, &[DESTINATION]);
            one.outside.fragments_of = Some(8);
        })
    }),
    evasive("decoy behind destination options, low hop limit", |o| {
        let mut decoys = spread(o, &o.decoy, 0, &[(0, o.decoy.len())]);
        for decoy in &mut decoys {
            behind(decoy, &[DESTINATION]);
            low_ttl(decoy);
        }
        steps(decoys.into_iter().chain(later(whole(o), 20)))
    }),
];
