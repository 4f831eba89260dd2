// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways to show a name late: in a second hello that the server requests, in another connection with the same sequence
//! numbers, and after data on a SYN.

use std::time::Duration;

use super::client::{Script, Segment, Step, FAST_OPEN, RST, SYN};
use super::hello::{self, Opening};
use super::strategies::{cut, dies_early, host_of, in_name, syn, Strategy};
use super::ALLOWED;

/// Pause longer than `--hello-timeout`.
const FORGOTTEN: Duration = Duration::from_millis(1_500);
/// Number of an opening's last bytes, sent after a SYN that carries all bytes before them.
const TAIL_BYTES: usize = 20;
/// TLS record that changes nothing (RFC 8446, appendix D.4).
const CHANGE_CIPHER: &[u8] = &[0x14, 3, 3, 0, 1, 1];
/// TLS record with a handshake message other than a hello: an empty Certificate.
const OTHER_MESSAGE: &[u8] = &[0x16, 3, 3, 0, 4, 11, 0, 0, 0];

fn script(steps: impl IntoIterator<Item = Step>) -> Option<Script> {
    Some(Script {
        steps: steps.into_iter().collect(),
        ..Script::default()
    })
}

/// Returns a hello that the server answers with a request for another hello (HelloRetryRequest); None for HTTP.
fn retried(opening: &Opening) -> Option<Vec<u8>> {
    Some(hello::tls_retried(&host_of(opening)?, opening.padding))
}

/// Returns a client that sends the first of two hellos, and after the server's request (HelloRetryRequest) the second
/// hello.
/// - places: offsets at which the second hello is split; if empty, it is whole.
fn asked_for(first: &[u8], second: &[u8], places: &[usize]) -> Option<Script> {
    let behind = cut(second, places).into_iter().map(|mut segment| {
        segment.offset += first.len() as i64;
        segment.step()
    });
    let first = [Segment::data(0, first).step(), Step::Hear];
    script(first.into_iter().chain(behind))
}

/// Returns a client like that of `asked_for`. Right after the first hello it also sends another message with the second
/// hello's sequence number, which does not reach the server.
fn asked_for_behind_decoy(first: &[u8], second: &[u8]) -> Option<Script> {
    let decoy = Segment {
        outside: dies_early(),
        ..Segment::data(first.len(), OTHER_MESSAGE)
    };
    script([
        Segment::data(0, first).step(),
        decoy.step(),
        Step::Hear,
        Segment::data(first.len(), second).step(),
    ])
}

/// Returns a client that opens a connection for one name, ends it by a RST, and opens another connection for another
/// name with the same ports and sequence numbers.
/// - after_syn: segments after the second SYN.
/// - places: offsets at which the second name's bytes are cut.
fn same_numbers(
    first: &Opening,
    second: &Opening,
    after_syn: Vec<Segment>,
    places: &[usize],
) -> Option<Script> {
    let end = Segment {
        flags: RST,
        ..Segment::data(first.bytes.len(), &[])
    };
    let first = [
        Segment::data(0, &first.bytes).step(),
        Step::Hear,
        end.step(),
        Step::OpenAgain(after_syn),
    ];
    let second = cut(&second.bytes, places).into_iter().map(Segment::step);
    script(first.into_iter().chain(second))
}

/// Returns a client that sends nearly all bytes on its SYN. After FORGOTTEN it sends the SYN again with the decoy's
/// bytes, and then the last bytes of the true opening. Returns None for a long hello.
/// - is_silent: true if the client does not acknowledge the server's SYN-ACK.
fn fast_open(opening: &Opening, decoy: &Opening, is_silent: bool) -> Option<Script> {
    let at = opening.bytes.len() - TAIL_BYTES;
    let again = Segment {
        flags: SYN,
        options: [&[2, 4, 5, 0xb4][..], &FAST_OPEN].concat(),
        ..Segment::data(0, &decoy.bytes)
    };
    // A long hello does not fit into a SYN.
    (opening.padding == 0).then_some(())?;
    Some(Script {
        on_syn: opening.bytes[..at].to_vec(),
        is_silent,
        ..script([
            Step::Pause(FORGOTTEN),
            again.step(),
            Segment::data(at, &opening.bytes[at..]).step(),
        ])?
    })
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

pub const LATER: &[Strategy] = &[
    way(
        "the same name in the hello that the server asks for",
        true,
        |o, _| asked_for(&retried(o)?, &o.bytes, &[]),
    ),
    way(
        "another name in the hello that the server asks for",
        false,
        |o, d| asked_for(&retried(d)?, &o.bytes, &[]),
    ),
    way(
        "another name in the hello that the server asks for, cut in it",
        false,
        |o, d| asked_for(&retried(d)?, &o.bytes, &[in_name(o)]),
    ),
    way(
        "another name in the hello that the server asks for, behind a record",
        false,
        |o, d| asked_for(&retried(d)?, &[CHANGE_CIPHER, &o.bytes].concat(), &[]),
    ),
    way(
        "another name in the hello that the server asks for, another message in its place, low time to live",
        false,
        |o, _| {
            host_of(o)?;
            asked_for_behind_decoy(&hello::tls_retried(ALLOWED, o.padding), &o.bytes)
        },
    ),
    way(
        "RST, and the same first number for another name",
        false,
        |o, d| same_numbers(d, o, vec![], &[]),
    ),
    way(
        "RST, and the same first number for another name, cut in it",
        false,
        |o, d| same_numbers(d, o, vec![], &[in_name(o)]),
    ),
    way(
        "RST, the same first number for another name, and another SYN, low time to live",
        false,
        |o, d| same_numbers(d, o, vec![syn(1_000)], &[]),
    ),
    way(
        "most on the SYN, and the SYN again with another name",
        false,
        |o, d| fast_open(o, d, true),
    ),
    way(
        "most on the SYN, acknowledged, and the SYN again with another name",
        false,
        |o, d| fast_open(o, d, false),
    ),
];
