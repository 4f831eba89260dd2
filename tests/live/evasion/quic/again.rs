// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways with two hellos: the server answers the first one by a request for another (HelloRetryRequest, RFC 8446, section
//! 4.1.4), and uses the name of the second.

use super::ways::{evasive, honest, spread, steps, Datagram, Opening, Way};

/// Returns the datagrams of two hellos, one after the other.
fn two(o: &Opening, first: &[u8], second: &[u8]) -> [Vec<Datagram>; 2] {
    let both = [first, second].concat();
    [
        spread(o, &both, 0, &[(0, first.len())]),
        spread(o, &both, 20, &[(first.len(), both.len())]),
    ]
}

const fn again(way: Way) -> Way {
    Way { again: true, ..way }
}

pub const AGAIN: &[Way] = &[
    again(honest(
        "the same name in the hello that the server asks for",
        |o| steps(two(o, &o.bytes, &o.bytes).concat()),
    )),
    again(evasive(
        "another name in the hello that the server asks for",
        |o| steps(two(o, &o.decoy, &o.bytes).concat()),
    )),
    again(evasive(
        "another name in the hello that the server asks for, which comes first",
        |o| {
            let [first, second] = two(o, &o.decoy, &o.bytes);
            steps([second, first].concat())
        },
    )),
];
