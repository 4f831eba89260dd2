// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways with two versions: a server that supports both versions accepts Initial packets of either version, whichever
//! the client began with (RFC 9369, section 4).

use super::packet::crypto;
use super::ways::{
    datagram, evasive, halves, later, low_ttl, packet, spread, steps, whole, Datagram, Opening,
    Way, ROOM,
};

/// Returns the same datagrams in the opening's other version; None if the opening has no other version.
fn in_other(o: &Opening, mut datagrams: Vec<Datagram>) -> Option<Vec<Datagram>> {
    let version = o.other_version?;
    let packets = datagrams.iter_mut().flat_map(|one| &mut one.packets);
    packets.for_each(|packet| packet.version = version);
    Some(datagrams)
}

pub const OF_TWO_VERSIONS: &[Way] = &[
    evasive("the second half in another version", |o| {
        let [first, second] = halves(o);
        steps([first, in_other(o, second)?].concat())
    }),
    evasive("the second half first, in another version", |o| {
        let [first, second] = halves(o);
        steps([in_other(o, second)?, first].concat())
    }),
    evasive("two packets of two versions in a datagram", |o| {
        let (at, end) = (o.bytes.len() / 2, o.bytes.len());
        let first = packet(o, 0, crypto(&o.bytes, 0, at));
        let mut second = packet(o, 1, crypto(&o.bytes, at, end));
        second.version = o.other_version?;
        (end < ROOM / 2).then(|| steps([datagram(vec![first, second])]))?
    }),
    evasive("decoy in another version first, low time to live", |o| {
        let decoys = spread(o, &o.decoy, 0, &[(0, o.decoy.len())]);
        let mut decoys = in_other(o, decoys)?;
        decoys.iter_mut().for_each(low_ttl);
        steps(decoys.into_iter().chain(later(whole(o), 20)))
    }),
    evasive("plain, and again in another version", |o| {
        let again = in_other(o, later(whole(o), 20))?;
        steps([whole(o), again].concat())
    }),
];
