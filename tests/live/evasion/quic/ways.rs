// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways in which a QUIC client hides a name.

use std::time::Duration;

use super::packet::{crypto, Packet};
use crate::evasion::net::HOPS;
use crate::evasion::wire::Outside;

/// Maximum number of a hello's bytes in one datagram; the datagram has room for other contents, too.
pub const ROOM: usize = 1_000;
const PING: u8 = 1;

/// ClientHello of a QUIC client, and two ClientHellos with another name: `decoy` for the same connection, `other` for
/// another connection.
#[derive(Clone, Debug)]
pub struct Opening {
    pub what: &'static str,
    pub version: u32,
    /// Other version whose packets the server also accepts in the same connection; None with quinn.
    pub other_version: Option<u32>,
    pub bytes: Vec<u8>,
    /// Offset of the name in `bytes`; its length is `name_bytes`.
    pub name_at: usize,
    pub name_bytes: usize,
    /// Hello like `bytes`, with the other name in place of the true name.
    pub decoy: Vec<u8>,
    /// Hello of another connection, with the name of `decoy`.
    pub other: Vec<u8>,
}

/// Contents of a datagram other than its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    /// Bytes after the packets that could be a packet with a short header.
    Short,
    /// Header of an unknown version, instead of the packets.
    UnknownVersion,
    /// A 0-RTT packet before the packets.
    ZeroRttFirst,
    /// A Handshake packet of the server, without other packets.
    ServersHandshake,
}

/// UDP datagram of a client.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub packets: Vec<Packet>,
    pub rest: Rest,
    pub outside: Outside,
    pub wrong_checksum: bool,
    /// True if the datagram comes from another port of the same client.
    pub other_port: bool,
}

#[derive(Clone, Debug)]
pub enum Step {
    Send(Datagram),
    Pause(Duration),
    /// Waits for a Retry packet. Later datagrams have its token and connection id.
    Retry,
}

pub struct Way {
    pub name: &'static str,
    /// True if a plain client may do the same, so an allowed name must pass.
    pub honest: bool,
    /// True if the way uses the server that validates each client by Retry.
    pub retried: bool,
    /// True if the way uses the server that requests another hello.
    pub again: bool,
    pub steps: fn(&Opening) -> Option<Vec<Step>>,
}

/// Pause longer than --hello-timeout.
pub const LATE_TIME: Duration = Duration::from_millis(1_500);
const LATE: Step = Step::Pause(LATE_TIME);

pub fn packet(opening: &Opening, number: usize, frames: Vec<u8>) -> Packet {
    Packet {
        version: opening.version,
        number: number as u16,
        frames,
        ..Packet::default()
    }
}

pub fn datagram(packets: Vec<Packet>) -> Datagram {
    Datagram {
        packets,
        rest: Rest::Nothing,
        outside: Outside::default(),
        wrong_checksum: false,
        other_port: false,
    }
}

/// Returns datagrams with pieces of a hello as CRYPTO frames. Each datagram is filled before the next; long pieces are
/// split.
/// - number: packet number of the first packet.
/// - pieces: first offset of each piece, and the offset after its last byte.
pub fn spread(
    opening: &Opening,
    bytes: &[u8],
    number: usize,
    pieces: &[(usize, usize)],
) -> Vec<Datagram> {
    let mut packets: Vec<Vec<u8>> = vec![Vec::new()];
    for &(from, to) in pieces {
        for start in (from..to).step_by(ROOM) {
            let frame = crypto(bytes, start, to.min(start + ROOM));
            match packets.last_mut() {
                Some(last) if last.len() + frame.len() <= ROOM + 16 => last.extend(frame),
                _ => packets.push(frame),
            }
        }
    }
    let packets = packets.into_iter().enumerate();
    packets
        .map(|(index, frames)| datagram(vec![packet(opening, number + index, frames)]))
        .collect()
}

pub fn steps(datagrams: impl IntoIterator<Item = Datagram>) -> Option<Vec<Step>> {
    Some(datagrams.into_iter().map(Step::Send).collect())
}

/// Returns the datagrams with the whole hello, unchanged.
pub fn whole(o: &Opening) -> Vec<Datagram> {
    spread(o, &o.bytes, 0, &[(0, o.bytes.len())])
}

/// Returns the steps that send these ranges of a hello, in this order.
fn pieces(o: &Opening, pieces: &[(usize, usize)]) -> Option<Vec<Step>> {
    steps(spread(o, &o.bytes, 0, pieces))
}

/// Returns the ranges of `count` equal parts of a hello; the last part may be shorter.
fn parts(o: &Opening, count: usize) -> Vec<(usize, usize)> {
    let (end, of) = (o.bytes.len(), o.bytes.len().div_ceil(count));
    let starts = (0..end).step_by(of);
    starts.map(|from| (from, end.min(from + of))).collect()
}

/// Returns the parts with odd index, and then the parts with even index.
fn shuffled(parts: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let odd = parts.iter().skip(1).step_by(2);
    odd.chain(parts.iter().step_by(2)).copied().collect()
}

fn in_name(o: &Opening) -> usize {
    o.name_at + 4
}

/// Returns both halves, split in the name, in separate datagrams.
pub fn halves(o: &Opening) -> [Vec<Datagram>; 2] {
    let (at, end) = (in_name(o), o.bytes.len());
    [
        spread(o, &o.bytes, 0, &[(0, at)]),
        spread(o, &o.bytes, 10, &[(at, end)]),
    ]
}

/// Returns a hello with the other name, changed by `spoil` so that the server does not receive it, and then the true
/// hello.
fn decoy_first(o: &Opening, spoil: fn(&mut Datagram)) -> Option<Vec<Step>> {
    let mut decoys = spread(o, &o.decoy, 0, &[(0, o.decoy.len())]);
    decoys.iter_mut().for_each(spoil);
    steps(decoys.into_iter().chain(later(whole(o), 20)))
}

/// Returns the datagrams with higher packet numbers.
/// - more: number to add to each.
pub fn later(mut datagrams: Vec<Datagram>, more: u16) -> Vec<Datagram> {
    let packets = datagrams.iter_mut().flat_map(|one| &mut one.packets);
    packets.for_each(|packet| packet.number += more);
    datagrams
}

pub fn low_ttl(datagram: &mut Datagram) {
    datagram.outside.ttl = HOPS - 1;
}

/// Changes the direction of a datagram: a forged datagram from the server to the client.
fn forge(datagram: &mut Datagram) {
    datagram.outside.is_forged = true;
}

/// Returns a datagram in the server's name, as if the server had the complete hello.
fn forged_handshake() -> Datagram {
    let mut datagram = datagram(Vec::new());
    datagram.rest = Rest::ServersHandshake;
    forge(&mut datagram);
    datagram
}

/// Returns the datagrams of another connection's hello.
fn stranger(o: &Opening) -> Vec<Datagram> {
    let mut datagrams = spread(o, &o.other, 0, &[(0, o.other.len())]);
    let packets = datagrams.iter_mut().flat_map(|one| &mut one.packets);
    packets.for_each(|packet| packet.other = true);
    datagrams
}

/// Returns the step that sends frames in one packet; None if they don't fit.
fn in_one(o: &Opening, frames: &[Vec<u8>]) -> Option<Vec<Step>> {
    let frames = frames.concat();
    (frames.len() <= ROOM).then(|| steps([datagram(vec![packet(o, 0, frames)])]))?
}

/// Returns the step that sends parts of a short hello in one datagram, each part in a separate packet; None for a long
/// hello.
pub fn coalesced(o: &Opening, count: usize) -> Option<Vec<Step>> {
    let packets = parts(o, count).into_iter().enumerate();
    let packets = packets.map(|(index, (from, to))| packet(o, index, crypto(&o.bytes, from, to)));
    (o.bytes.len() < ROOM / 2).then(|| steps([datagram(packets.collect())]))?
}

/// Returns the steps that send the whole hello in datagrams that `change` has changed.
pub fn changed(o: &Opening, change: fn(&mut Datagram)) -> Option<Vec<Step>> {
    let mut datagrams = whole(o);
    datagrams.iter_mut().for_each(change);
    steps(datagrams)
}

fn joined(all: impl IntoIterator<Item = Option<Vec<Step>>>) -> Option<Vec<Step>> {
    let all: Option<Vec<_>> = all.into_iter().collect();
    Some(all?.concat())
}

pub const fn honest(name: &'static str, steps: fn(&Opening) -> Option<Vec<Step>>) -> Way {
    Way {
        name,
        honest: true,
        retried: false,
        again: false,
        steps,
    }
}

pub const fn evasive(name: &'static str, steps: fn(&Opening) -> Option<Vec<Step>>) -> Way {
    Way {
        honest: false,
        ..honest(name, steps)
    }
}

pub const WAYS: &[Way] = &[
    honest("plain", |o| steps(whole(o))),
    honest("two frames, cut in the name", |o| {
        pieces(o, &[(0, in_name(o)), (in_name(o), o.bytes.len())])
    }),
    honest("two frames, second half first", |o| {
        pieces(o, &[(in_name(o), o.bytes.len()), (0, in_name(o))])
    }),
    honest("seven frames, shuffled", |o| {
        pieces(o, &shuffled(&parts(o, 7)))
    }),
    honest("seven frames, last first, PING and padding between", |o| {
        let mut frames: Vec<_> = parts(o, 7)
            .iter()
            .map(|&(from, to)| [crypto(&o.bytes, from, to), vec![0, 0, PING, 0]].concat())
            .collect();
        frames.reverse();
        in_one(o, &frames)
    }),
    honest("one byte a frame in the name", |o| {
        let (at, end) = (o.name_at, o.name_at + o.name_bytes);
        let bytes = (at..end).map(|byte| (byte, byte + 1));
        let around = [(0, at), (end, o.bytes.len())];
        pieces(o, &bytes.rev().chain(around).collect::<Vec<_>>())
    }),
    honest("frames overlap with the same bytes", |o| {
        let at = in_name(o);
        pieces(o, &[(0, at + 4), (at - 3, o.bytes.len())])
    }),
    honest("two datagrams, cut in the name", |o| {
        steps(halves(o).concat())
    }),
    honest("two datagrams, second half first", |o| {
        let [first, second] = halves(o);
        steps([second, first].concat())
    }),
    honest("every datagram twice", |o| {
        let datagrams = whole(o).into_iter();
        steps(datagrams.flat_map(|one| [one.clone(), one]))
    }),
    honest("two packets in a datagram", |o| coalesced(o, 2)),
    honest("eight packets in a datagram", |o| coalesced(o, 8)),
    honest("an unknown version first", |o| {
        let unknown = Datagram {
            rest: Rest::UnknownVersion,
            ..datagram(Vec::new())
        };
        steps([unknown].into_iter().chain(whole(o)))
    }),
    honest("what could be a short header behind", |o| {
        changed(o, |one| one.rest = Rest::Short)
    }),
    honest("packet numbers from 4660 on", |o| {
        steps(later(whole(o), 4_660))
    }),
    honest("the name in upper case", |o| {
        let mut bytes = o.bytes.clone();
        bytes[o.name_at..o.name_at + o.name_bytes].make_ascii_uppercase();
        steps(spread(o, &bytes, 0, &[(0, bytes.len())]))
    }),
    Way {
        retried: true,
        ..honest("Retry", |o| {
            joined([
                steps(whole(o)),
                Some(vec![Step::Retry]),
                steps(later(whole(o), 20)),
            ])
        })
    },
    Way {
        retried: true,
        ..evasive("Retry between the other name and the true one", |o| {
            let decoys = spread(o, &o.decoy, 0, &[(0, o.decoy.len())]);
            joined([
                steps(decoys),
                Some(vec![Step::Retry]),
                steps(later(whole(o), 20)),
            ])
        })
    },
    evasive("a fixed bit of 0", |o| {
        changed(o, |one| one.packets[0].greased = true)
    }),
    evasive("a token that nobody gave", |o| {
        changed(o, |one| one.packets[0].token = vec![0x77; 40])
    }),
    evasive("decoy first, low time to live", |o| decoy_first(o, low_ttl)),
    evasive("decoy first, wrong checksum", |o| {
        decoy_first(o, |one| one.wrong_checksum = true)
    }),
    evasive("decoy first, broken seal", |o| {
        decoy_first(o, |one| one.packets[0].broken = true)
    }),
    evasive("decoy of another connection first, low time to live", |o| {
        let mut decoys = stranger(o);
        decoys.iter_mut().for_each(low_ttl);
        steps(decoys.into_iter().chain(whole(o)))
    }),
    evasive("decoy first, in the server's name", |o| {
        decoy_first(o, forge)
    }),
    evasive("another connection first, in the server's name", |o| {
        let mut decoys = stranger(o);
        decoys.iter_mut().for_each(forge);
        steps(decoys.into_iter().chain(whole(o)))
    }),
    evasive(
        "decoy first, low time to live, and a Handshake packet in the server's name",
        |o| {
            let mut decoys = spread(o, &o.decoy, 0, &[(0, o.decoy.len())]);
            decoys.iter_mut().for_each(low_ttl);
            let answered = decoys.into_iter().chain([forged_handshake()]);
            steps(answered.chain(later(whole(o), 20)))
        },
    ),
    evasive("a Handshake packet in the server's name in the name", |o| {
        let [first, second] = halves(o);
        steps([first, vec![forged_handshake()], second].concat())
    }),
    evasive("another connection first, from the same port", |o| {
        steps(stranger(o).into_iter().chain(whole(o)))
    }),
    evasive("another connection long before, from the same port", |o| {
        joined([steps(stranger(o)), Some(vec![LATE]), steps(whole(o))])
    }),
    evasive("another connection within, from the same port", |o| {
        let [first, second] = halves(o);
        steps([first, stranger(o), second].concat())
    }),
    evasive("other bytes first, in one packet", |o| {
        let (at, end) = (in_name(o), o.bytes.len());
        let frames = [
            crypto(&o.decoy, at, end),
            crypto(&o.bytes, at, end),
            crypto(&o.bytes, 0, at),
        ];
        in_one(o, &frames)
    }),
    evasive("other bytes second, in one packet", |o| {
        let (at, end) = (in_name(o), o.bytes.len());
        let frames = [
            crypto(&o.bytes, at, end),
            crypto(&o.decoy, at, end),
            crypto(&o.bytes, 0, at),
        ];
        in_one(o, &frames)
    }),
    evasive("other bytes first, in datagrams of their own", |o| {
        let (at, end) = (in_name(o), o.bytes.len());
        let [first, second] = halves(o);
        let decoys = spread(o, &o.decoy, 30, &[(at, end)]);
        steps([decoys, second, first].concat())
    }),
    evasive(
        "other bytes second, in datagrams of low time to live",
        |o| {
            let (at, end) = (in_name(o), o.bytes.len());
            let [first, second] = halves(o);
            let mut decoys = spread(o, &o.decoy, 30, &[(at, end)]);
            decoys.iter_mut().for_each(low_ttl);
            steps([second, decoys, first].concat())
        },
    ),
    evasive("the whole in false before, low time to live", |o| {
        let mut decoys = spread(o, &o.decoy, 30, &[(0, o.decoy.len())]);
        decoys.iter_mut().for_each(low_ttl);
        steps([decoys, halves(o).concat()].concat())
    }),
    evasive("twelve packets in a datagram", |o| coalesced(o, 12)),
    evasive("a 0-RTT packet before, in the same datagram", |o| {
        changed(o, |one| one.rest = Rest::ZeroRttFirst)
    }),
    evasive("IP fragments of 24 bytes", |o| {
        changed(o, |one| one.outside.fragments_of = Some(24))
    }),
    evasive("IP fragments of 64 bytes, last first", |o| {
        changed(o, |one| {
            one.outside.fragments_of = Some(64);
            one.outside.fragments_reversed = true;
        })
    }),
    evasive("a pause longer than --hello-timeout in the name", |o| {
        let [first, second] = halves(o);
        joined([steps(first), Some(vec![LATE]), steps(second)])
    }),
    evasive("plain, and again much later", |o| {
        joined([
            steps(whole(o)),
            Some(vec![LATE]),
            steps(later(whole(o), 20)),
        ])
    }),
    evasive("two datagrams, from two ports", |o| {
        let [first, mut second] = halves(o);
        second.iter_mut().for_each(|one| one.other_port = true);
        steps([first, second].concat())
    }),
    evasive("two datagrams, the first from another port", |o| {
        let [mut first, second] = halves(o);
        first.iter_mut().for_each(|one| one.other_port = true);
        steps([first, second].concat())
    }),
    evasive("seventeen gaps", |o| {
        pieces(o, &shuffled(&parts(o, o.bytes.len() / 6)))
    }),
];
