// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways to hide a name from a firewall on the path, as used by tools against censorship (Geneva, GoodbyeDPI, zapret,
//! SymTCP, Ptacek and Newsham's paper of 1998).

use std::time::Duration;

use super::client::{Script, Segment, Step, ACK, FIN, PSH, RST, SYN, URG};
use super::hello::{self, name_in_handshake, tls_records, Opening};
use super::net::HOPS;
use super::wire::Outside;

/// Way to send a client's data. `script` receives the data and a decoy; it returns None if it does not apply to the
/// data.
pub struct Strategy {
    pub name: &'static str,
    /// True if a plain client may do the same, depending on its network: an allowed name must pass.
    pub honest: bool,
    pub script: fn(&Opening, &Opening) -> Option<Script>,
}

pub fn steps(segments: impl IntoIterator<Item = Segment>) -> Option<Script> {
    Some(Script {
        steps: segments.into_iter().map(Segment::step).collect(),
        ..Script::default()
    })
}

/// Returns the segments of bytes that are split at these offsets.
pub fn cut(bytes: &[u8], places: &[usize]) -> Vec<Segment> {
    let ends = places.iter().copied().chain([bytes.len()]);
    let mut from = 0;
    let mut segments = Vec::new();
    for end in ends {
        segments.push(Segment::data(from, &bytes[from..end]));
        from = end;
    }
    segments
}

pub fn in_name(opening: &Opening) -> usize {
    opening.name_at + 4
}

/// Splits bytes into segments of equal length; the last segment may be shorter.
/// - of: length of a segment in bytes.
fn every(bytes: &[u8], of: usize) -> Vec<Segment> {
    let parts = bytes.chunks(of).enumerate();
    parts
        .map(|(index, part)| Segment::data(index * of, part))
        .collect()
}

fn reversed(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.reverse();
    segments
}

/// Returns a client that sends a decoy, which the server discards, before the true data.
/// - spoil: changes the decoy so that the server discards it.
fn decoy_first(opening: &Opening, decoy: &Opening, spoil: fn(&mut Segment)) -> Option<Script> {
    let mut false_one = Segment::data(0, &decoy.bytes);
    spoil(&mut false_one);
    steps([false_one, Segment::data(0, &opening.bytes)])
}

/// Returns a client that sends a decoy of the second half only, between the true halves.
fn decoy_within(opening: &Opening, decoy: &Opening, spoil: fn(&mut Segment)) -> Option<Script> {
    let at = in_name(opening);
    let mut false_one = Segment::data(at, decoy.bytes.get(at..)?);
    spoil(&mut false_one);
    steps([
        Segment::data(0, &opening.bytes[..at]),
        false_one,
        Segment::data(at, &opening.bytes[at..]),
    ])
}

/// Returns a client that sends an empty segment, which the server discards, before the data.
fn signal_first(opening: &Opening, flags: u8, spoil: fn(&mut Segment)) -> Option<Script> {
    let mut signal = Segment {
        flags,
        ..Segment::data(0, &[])
    };
    spoil(&mut signal);
    steps([signal, Segment::data(0, &opening.bytes)])
}

/// Returns a client that sends an empty segment, which the server discards, between the halves of the data.
fn signal_within(opening: &Opening, flags: u8, spoil: fn(&mut Segment)) -> Option<Script> {
    let at = in_name(opening);
    let mut signal = Segment {
        flags,
        ..Segment::data(at, &[])
    };
    spoil(&mut signal);
    steps([
        Segment::data(0, &opening.bytes[..at]),
        signal,
        Segment::data(at, &opening.bytes[at..]),
    ])
}

fn low_ttl(segment: &mut Segment) {
    segment.outside.ttl = HOPS - 1;
}

fn wrong_checksum(segment: &mut Segment) {
    segment.wrong_checksum = true;
}

/// Sets a sequence number before the receive window.
fn old(segment: &mut Segment) {
    segment.offset -= 10_000;
}

/// Sets a sequence number after the receive window.
fn beyond(segment: &mut Segment) {
    segment.offset += 10_000_000;
}

/// Adds the TCP MD5 option (RFC 2385), for which the server has no key.
fn md5(segment: &mut Segment) {
    segment.options = [&[19, 18][..], &[0x5a; 16], &[1, 1]].concat();
}

/// Acknowledges data that the server has never sent.
fn wrong_ack(segment: &mut Segment) {
    segment.ack_off = 0x0100_0000;
}

/// Removes the acknowledgement flag.
fn no_ack(segment: &mut Segment) {
    segment.flags = PSH;
}

fn no_flags(segment: &mut Segment) {
    segment.flags = 0;
}

fn with_fin(segment: &mut Segment) {
    segment.flags |= FIN;
    segment.outside.ttl = HOPS - 1;
}

/// Adds timestamps (RFC 7323), which were not negotiated.
fn timestamps(segment: &mut Segment) {
    segment.options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
}

/// Returns headers with a time to live with which packets don't reach the server.
pub fn dies_early() -> Outside {
    Outside {
        ttl: HOPS - 1,
        ..Outside::default()
    }
}

/// Returns a forged acknowledgement by the server of this number of the client's bytes.
fn forged_ack(bytes: usize) -> Segment {
    Segment {
        flags: ACK,
        outside: Outside {
            is_forged: true,
            ..Outside::default()
        },
        ..Segment::data(bytes, &[])
    }
}

/// Returns a SYN whose sequence number differs from the true first number by `offset`. Its TTL ends before the server.
pub fn syn(offset: i64) -> Segment {
    Segment {
        flags: SYN,
        offset,
        outside: dies_early(),
        ..Segment::data(0, &[])
    }
}

/// Returns an opening's hello in TLS records that end at these offsets of the handshake message; None for HTTP.
fn in_records(opening: &Opening, cuts: &[usize]) -> Option<Vec<u8>> {
    let host = host_of(opening)?;
    Some(tls_records(&host, opening.padding, cuts).bytes)
}

pub fn host_of(opening: &Opening) -> Option<String> {
    let name = opening.bytes.get(opening.name_at..)?;
    let end = name.iter().position(|byte| !byte.is_ascii_graphic())?;
    (opening.port == 443).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Returns an opening's bytes with the name in upper case.
fn in_upper_case(opening: &Opening) -> Vec<u8> {
    let mut bytes = opening.bytes.clone();
    let name = bytes[opening.name_at..].iter_mut();
    name.take_while(|byte| byte.is_ascii_graphic())
        .for_each(|byte| byte.make_ascii_uppercase());
    bytes
}

fn name_cut(opening: &Opening) -> Option<usize> {
    Some(name_in_handshake(&host_of(opening)?, opening.padding) + 4)
}

fn fragments(opening: &Opening, of: usize, fragments_reversed: bool) -> Option<Script> {
    steps([Segment {
        outside: Outside {
            fragments_of: Some(of),
            fragments_reversed,
            ..Outside::default()
        },
        ..Segment::data(0, &opening.bytes)
    }])
}

macro_rules! honest {
    ($name:literal, $script:expr) => {
        Strategy {
            name: $name,
            honest: true,
            script: $script,
        }
    };
}

macro_rules! evasive {
    ($name:literal, $script:expr) => {
        Strategy {
            name: $name,
            honest: false,
            script: $script,
        }
    };
}

pub const STRATEGIES: &[Strategy] = &[
    honest!("plain", |o, _| steps(cut(&o.bytes, &[]))),
    honest!("split after the first byte", |o, _| steps(cut(
        &o.bytes,
        &[1]
    ))),
    honest!("split in the record's header", |o, _| steps(cut(
        &o.bytes,
        &[3]
    ))),
    honest!("split before the name", |o, _| steps(cut(
        &o.bytes,
        &[o.name_at]
    ))),
    honest!("split in the name", |o, _| steps(cut(
        &o.bytes,
        &[in_name(o)]
    ))),
    honest!("split before the last byte", |o, _| steps(cut(
        &o.bytes,
        &[o.bytes.len() - 1]
    ))),
    honest!("split in three, twice in the name", |o, _| steps(cut(
        &o.bytes,
        &[o.name_at + 2, o.name_at + 5]
    ))),
    honest!("seven bytes a segment", |o, _| steps(every(&o.bytes, 7))),
    honest!("one byte a segment", |o, _| steps(every(&o.bytes, 1))),
    honest!("split in the name, second half first", |o, _| steps(
        reversed(cut(&o.bytes, &[in_name(o)]))
    )),
    honest!("seven segments, last first", |o, _| steps(reversed(every(
        &o.bytes,
        o.bytes.len() / 7 + 1
    )))),
    honest!("every segment twice", |o, _| {
        let segments = every(&o.bytes, 20);
        steps(segments.into_iter().flat_map(|one| [one.clone(), one]))
    }),
    honest!("halves overlap with the same bytes", |o, _| {
        let at = in_name(o);
        steps([
            Segment::data(0, &o.bytes[..at + 4]),
            Segment::data(at - 3, &o.bytes[at - 3..]),
        ])
    }),
    honest!(
        "second half first, halves overlap with the same bytes",
        |o, _| {
            let at = in_name(o);
            steps([
                Segment::data(at - 3, &o.bytes[at - 3..]),
                Segment::data(0, &o.bytes[..at + 4]),
            ])
        }
    ),
    honest!("the whole behind its halves in false order", |o, _| {
        let at = in_name(o);
        steps([
            Segment::data(at, &o.bytes[at..]),
            Segment::data(0, &o.bytes),
        ])
    }),
    honest!("sequence numbers wrap around in the name", |o, _| {
        let script = steps(cut(&o.bytes, &[in_name(o)]))?;
        Some(Script {
            first: 0_u32.wrapping_sub(o.name_at as u32 + 3),
            ..script
        })
    }),
    honest!("data on the SYN", |o, _| Some(Script {
        on_syn: o.bytes.clone(),
        steps: vec![Segment::data(0, &o.bytes).step()],
        ..Script::default()
    })),
    honest!("half of the data on the SYN", |o, _| {
        let at = in_name(o);
        Some(Script {
            on_syn: o.bytes[..at].to_vec(),
            steps: vec![
                Segment::data(0, &o.bytes[..at]).step(),
                Segment::data(at, &o.bytes[at..]).step(),
            ],
            ..Script::default()
        })
    }),
    honest!("two records, cut in the name", |o, _| steps(cut(
        &in_records(o, &[name_cut(o)?])?,
        &[]
    ))),
    honest!("two records, the first of one byte", |o, _| steps(cut(
        &in_records(o, &[1])?,
        &[]
    ))),
    honest!(
        "two records in two segments, all cut in the name",
        |o, _| {
            let bytes = in_records(o, &[name_cut(o)?])?;
            steps(cut(&bytes, &[o.name_at + 2]))
        }
    ),
    honest!(
        "a record every twenty bytes, a segment every thirteen",
        |o, _| {
            let end = name_in_handshake(&host_of(o)?, o.padding);
            let cuts: Vec<usize> = (20..end).step_by(20).collect();
            steps(every(&in_records(o, &cuts)?, 13))
        }
    ),
    honest!("the name in upper case", |o, _| steps(cut(
        &in_upper_case(o),
        &[]
    ))),
    evasive!("a dot behind the name", |o, _| {
        let host = host_of(o)? + ".";
        steps(cut(&hello::tls(&host, o.padding).bytes, &[]))
    }),
    evasive!("other bytes first, whole", |o, d| steps([
        Segment::data(0, &d.bytes),
        Segment::data(0, &o.bytes)
    ])),
    evasive!("other bytes second, whole", |o, d| steps([
        Segment::data(0, &o.bytes),
        Segment::data(0, &d.bytes)
    ])),
    evasive!("out of order, overlap with other bytes first", |o, d| {
        let at = in_name(o);
        steps([
            Segment::data(at, d.bytes.get(at..)?),
            Segment::data(at, &o.bytes[at..]),
            Segment::data(0, &o.bytes[..at]),
        ])
    }),
    evasive!("out of order, overlap with other bytes second", |o, d| {
        let at = in_name(o);
        steps([
            Segment::data(at, &o.bytes[at..]),
            Segment::data(at, d.bytes.get(at..)?),
            Segment::data(0, &o.bytes[..at]),
        ])
    }),
    evasive!(
        "out of order, the first half says the second again in false",
        |o, d| {
            let at = in_name(o);
            let both = [&o.bytes[..at], d.bytes.get(at..)?].concat();
            steps([Segment::data(at, &o.bytes[at..]), Segment::data(0, &both)])
        }
    ),
    evasive!("decoy, low time to live", |o, d| decoy_first(o, d, low_ttl)),
    evasive!("decoy, wrong checksum", |o, d| decoy_first(
        o,
        d,
        wrong_checksum
    )),
    evasive!("decoy, old sequence number", |o, d| decoy_first(o, d, old)),
    evasive!("decoy, sequence number beyond the window", |o, d| {
        decoy_first(o, d, beyond)
    }),
    evasive!("decoy, TCP MD5", |o, d| decoy_first(o, d, md5)),
    evasive!("decoy, other acknowledgement", |o, d| decoy_first(
        o, d, wrong_ack
    )),
    evasive!("decoy, no acknowledgement", |o, d| decoy_first(
        o, d, no_ack
    )),
    evasive!("decoy, no flags", |o, d| decoy_first(o, d, no_flags)),
    evasive!("decoy with FIN, low time to live", |o, d| decoy_first(
        o, d, with_fin
    )),
    evasive!(
        "decoy, timestamps nobody asked for, low time to live",
        |o, d| decoy_first(o, d, |one| {
            timestamps(one);
            low_ttl(one)
        })
    ),
    evasive!("decoy of the second half, low time to live", |o, d| {
        decoy_within(o, d, low_ttl)
    }),
    evasive!("decoy of the second half, wrong checksum", |o, d| {
        decoy_within(o, d, wrong_checksum)
    }),
    evasive!("decoy of the second half, TCP MD5", |o, d| decoy_within(
        o, d, md5
    )),
    evasive!("decoy of the second half, other acknowledgement", |o, d| {
        decoy_within(o, d, wrong_ack)
    }),
    evasive!("decoy of the second half, no acknowledgement", |o, d| {
        decoy_within(o, d, no_ack)
    }),
    evasive!("decoy, acknowledged in the server's name", |o, d| steps([
        Segment {
            outside: dies_early(),
            ..Segment::data(0, &d.bytes)
        },
        forged_ack(d.bytes.len()),
        Segment::data(0, &o.bytes),
    ])),
    evasive!("RST first, low time to live", |o, _| signal_first(
        o, RST, low_ttl
    )),
    evasive!("RST first, wrong checksum", |o, _| signal_first(
        o,
        RST,
        wrong_checksum
    )),
    evasive!("RST first, beyond the window", |o, _| signal_first(
        o, RST, beyond
    )),
    evasive!("RST with ACK first, low time to live", |o, _| signal_first(
        o,
        RST | ACK,
        low_ttl
    )),
    evasive!("FIN first, low time to live", |o, _| signal_first(
        o,
        FIN | ACK,
        low_ttl
    )),
    evasive!("FIN first, wrong checksum", |o, _| signal_first(
        o,
        FIN | ACK,
        wrong_checksum
    )),
    evasive!("RST in the middle, low time to live", |o, _| signal_within(
        o, RST, low_ttl
    )),
    evasive!("RST in the middle, wrong checksum", |o, _| signal_within(
        o,
        RST,
        wrong_checksum
    )),
    evasive!("FIN in the middle, low time to live", |o, _| signal_within(
        o,
        FIN | ACK,
        low_ttl
    )),
    evasive!("RST in the middle, TCP MD5", |o, _| signal_within(
        o, RST, md5
    )),
    evasive!("another SYN before, low time to live", |o, _| Some(
        Script {
            before: vec![syn(-5_000)],
            ..steps(cut(&o.bytes, &[]))?
        }
    )),
    evasive!(
        "another SYN a hundred before, right behind the true one",
        |o, _| Some(Script {
            after_syn: vec![syn(-100)],
            ..steps(cut(&o.bytes, &[]))?
        })
    ),
    evasive!(
        "another SYN a hundred before, in the open connection",
        |o, _| steps([syn(-101), Segment::data(0, &o.bytes)],)
    ),
    evasive!(
        "another SYN far away, in the open connection",
        |o, _| steps([syn(1_000_000), Segment::data(0, &o.bytes)],)
    ),
    evasive!(
        "FIN, then another SYN a hundred before, low time to live",
        |o, _| steps([
            Segment {
                flags: FIN | ACK,
                outside: dies_early(),
                ..Segment::data(0, &[])
            },
            syn(-101),
            Segment::data(0, &o.bytes),
        ])
    ),
    evasive!(
        "RST, then another SYN a hundred before, low time to live",
        |o, _| steps([
            Segment {
                flags: RST,
                outside: dies_early(),
                ..Segment::data(0, &[])
            },
            syn(-101),
            Segment::data(0, &o.bytes),
        ])
    ),
    evasive!(
        "decoy with the allowed name, FIN and another SYN",
        |o, d| steps([
            Segment {
                outside: dies_early(),
                ..Segment::data(0, &d.bytes)
            },
            Segment {
                flags: FIN | ACK,
                outside: dies_early(),
                ..Segment::data(d.bytes.len(), &[])
            },
            syn(-101),
            Segment::data(0, &o.bytes),
        ])
    ),
    evasive!("decoy on the SYN of the low time to live", |o, d| Some(
        Script {
            before: vec![Segment {
                bytes: d.bytes.clone(),
                ..syn(0)
            }],
            ..steps(cut(&o.bytes, &[]))?
        }
    )),
    evasive!("a byte before the first", |o, _| steps([
        Segment::data(0, &o.bytes[..1]),
        Segment {
            offset: -1,
            ..Segment::data(0, &[&[b'x'][..], &o.bytes].concat())
        },
    ])),
    evasive!(
        "an urgent byte in the name, which the server leaves out",
        |o, _| {
            let at = in_name(o);
            let bytes = [&o.bytes[..at], b"x", &o.bytes[at..]].concat();
            steps([Segment {
                flags: PSH | ACK | URG,
                urgent: at as u16 + 1,
                ..Segment::data(0, &bytes)
            }])
        }
    ),
    evasive!("IP fragments of 8 bytes", |o, _| fragments(o, 8, false)),
    evasive!("IP fragments of 24 bytes", |o, _| fragments(o, 24, false)),
    evasive!("IP fragments of 64 bytes, last first", |o, _| fragments(
        o, 64, true
    )),
    evasive!("a pause longer than --hello-timeout in the name", |o, _| {
        let at = in_name(o);
        Some(Script {
            steps: vec![
                Segment::data(0, &o.bytes[..at]).step(),
                Step::Pause(Duration::from_millis(1_500)),
                Segment::data(at, &o.bytes[at..]).step(),
            ],
            ..Script::default()
        })
    }),
    evasive!("plain, and again much later", |o, _| Some(Script {
        steps: vec![
            Segment::data(0, &o.bytes).step(),
            Step::Pause(Duration::from_millis(1_500)),
            Segment::data(0, &o.bytes).step(),
        ],
        ..Script::default()
    })),
    evasive!("seventeen gaps", |o, _| {
        let parts = every(&o.bytes, 3);
        let (even, odd): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .enumerate()
            .partition(|(index, _)| index % 2 == 0);
        let last_first = odd.into_iter().chain(even);
        steps(last_first.map(|(_, one)| one))
    }),
];
