// SPDX-License-Identifier: GPL-2.0-or-later

use rust_firewall::names::progress::NamesProgress;
use rust_firewall::names::{client, hello, record, Names, NamesState};

use crate::support::names::{ask, is_same_in_segments, ASKS};
use crate::support::vectors;

const FILES: [&str; 5] = [
    "names-hello.txt",
    "names-http.txt",
    "names-dns.txt",
    "names-quic.txt",
    "names-answer.txt",
];

#[test]
fn every_vector_gives_what_it_expects() {
    for file in FILES {
        let blocks = vectors::read(file);
        assert!(blocks.len() > 10, "only {} vectors", blocks.len());
        for block in &blocks {
            let what = block.value("ask").expect("what is asked");
            assert!(ASKS.contains(&what), "nobody knows {what}");
            assert_eq!(
                Some(ask(what, &block.bytes()).as_str()),
                block.value("expect"),
                "{}",
                block.name()
            );
        }
    }
}

/// A decided result for the first bytes of a vector's stream equals the result for all its bytes.
#[test]
fn what_is_decided_stays_decided() {
    let mut cuts = 0;
    for block in FILES.iter().flat_map(|file| vectors::read(file)) {
        let what = block.value("ask").expect("what is asked");
        let (bytes, expect) = (block.bytes(), block.value("expect"));
        for end in 0..bytes.len() {
            let got = match what {
                "hello" | "client" | "framed" | "request" | "chunk" => ask(what, &bytes[..end]),
                _ => break,
            };
            let is_undecided = got.contains("\"state\":\"undecided\"");
            assert!(
                is_undecided || Some(got.as_str()) == expect,
                "{} {end}",
                block.name()
            );
            cuts += 1;
        }
    }
    assert!(cuts > 1000);
}

/// Parses a stream after each byte, except while `client::waits` is true. Returns the number of times that it was true.
fn read_slowly(bytes: &[u8]) -> usize {
    let mut scratch = Box::new([0; hello::BYTES_MAX]);
    let mut progress = NamesProgress::default();
    let mut names = Names {
        state: NamesState::Undecided,
        ..Names::default()
    };
    let mut waited = 0;
    for end in 1..=bytes.len() {
        if names.state != NamesState::Undecided {
            break;
        }
        if client::waits(&names, &progress, &bytes[end - 1..end], end as u32) {
            let (mut start, mut again) = (NamesProgress::default(), Names::default());
            waited += 1;
            let state = client::parse(&bytes[..end], false, &mut scratch, &mut start, &mut again);
            assert_eq!(state, NamesState::Undecided);
            assert_eq!(again.protocol, names.protocol);
        } else {
            client::parse(
                &bytes[..end],
                false,
                &mut scratch,
                &mut progress,
                &mut names,
            );
        }
    }
    waited
}

#[test]
fn what_waits_is_undecided() {
    let blocks = FILES.iter().flat_map(|file| vectors::read(file));
    let streams = blocks.filter(|block| block.value("ask") == Some("client"));
    let waited: usize = streams.map(|block| read_slowly(&block.bytes())).sum();
    assert!(waited > 1000);
}

/// Maximum size of the segments for vectors that are longer than SHORT, in bytes.
const SEGMENT_MAX: usize = 16;
const SHORT: usize = 600;

/// A stream in segments of every size gives the same names as in one segment.
#[test]
fn segments_change_no_result() {
    let mut cuts = 0;
    for block in FILES.iter().flat_map(|file| vectors::read(file)) {
        let what = block.value("ask").expect("what is asked");
        let bytes = block.bytes();
        if !["client", "request"].contains(&what) {
            continue;
        }
        let is_short = bytes.len() <= SHORT;
        let sizes = if is_short { bytes.len() } else { SEGMENT_MAX };
        for size in 1..=sizes {
            let is_same = is_same_in_segments(what, &bytes, size);
            assert!(is_same, "{} {size}", block.name());
            cuts += 1;
        }
    }
    assert!(cuts > 1000);
}

/// Returns bytes in TLS records with up to `size` bytes each.
fn records(kind: u8, bytes: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[kind, 3, 3, 0, part.len() as u8], part].concat();
    bytes.chunks(size).flat_map(record).collect()
}

/// Reads the second ClientHello of a stream in segments. Compares each result with the result without progress. Returns
/// the last result.
/// - begin: length of the records with the first ClientHello.
/// - segment: size of the segments in bytes.
fn read_second(bytes: &[u8], begin: usize, segment: usize) -> NamesState {
    let mut scratch = Box::new([0; hello::BYTES_MAX]);
    let mut progress = NamesProgress::default();
    let mut state = NamesState::Undecided;
    for end in (begin..bytes.len()).step_by(segment).chain([bytes.len()]) {
        let (mut start, mut whole, mut names) = Default::default();
        let anew = record::parse_second(&bytes[..end], &mut scratch, &mut start, &mut whole);
        state = record::parse_second(&bytes[..end], &mut scratch, &mut progress, &mut names);
        assert_eq!(state, anew, "{segment}: {end}");
        if state != NamesState::Undecided {
            assert_eq!(names, whole);
            break;
        }
    }
    state
}

/// A second ClientHello is read in records and segments of every size, after other records, and also if its first
/// record contains the end of the first ClientHello.
#[test]
fn segments_change_no_second_hello() {
    let blocks = vectors::read("names-hello.txt");
    let hellos = blocks.iter().filter(|block| {
        let is_known = ask("hello", &block.bytes()).contains("\"state\":\"known\"");
        block.value("ask") == Some("hello") && is_known
    });
    let mut seen = 0;
    for message in hellos.map(|block| block.bytes()) {
        let hello = &message[..hello::length(&message) as usize];
        if hello.len() >= hello::BYTES_MAX / 16 {
            continue;
        }
        let both = [hello, hello].concat();
        for size in [1, 3, 7, 200] {
            let first = records(22, hello, size);
            let apart = [
                &first[..],
                &records(20, &[1], 1),
                &records(23, &[0; 20], 6),
                &first,
            ]
            .concat();
            for segment in [1, 2, 5, 6, 64, apart.len()] {
                let joined = records(22, &both, size);
                let known = NamesState::Known;
                assert_eq!(read_second(&apart, first.len(), segment), known);
                assert_eq!(read_second(&joined, joined.len() / 2, segment), known);
                seen += 1;
            }
        }
    }
    assert!(seen > 24);
}
