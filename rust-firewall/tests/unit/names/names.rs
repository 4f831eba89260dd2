// SPDX-License-Identifier: GPL-2.0-or-later

use rust_firewall::names::{client, hello, record, Names, NamesState};

use crate::support::names::{ask, ASKS};
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

/// The protocol of a stream's first bytes never changes when more arrive.
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

/// Reads a stream as one byte after the other comes, without reading again what waits. Returns how often that was so.
fn read_slowly(bytes: &[u8]) -> usize {
    let mut scratch = Box::new([0; hello::BYTES_MAX]);
    let mut names = Names {
        state: NamesState::Undecided,
        ..Names::default()
    };
    let mut waited = 0;
    for end in 1..=bytes.len() {
        let mut head = [0; record::HEAD_BYTES];
        let shown = end.min(head.len());
        head[..shown].copy_from_slice(&bytes[..shown]);
        if names.state != NamesState::Undecided {
            break;
        }
        if client::waits(&names, &head, &bytes[end - 1..end], end as u32) {
            let mut again = Names::default();
            waited += 1;
            let state = client::read(&bytes[..end], false, &mut scratch, &mut again);
            assert_eq!(state, NamesState::Undecided);
            assert_eq!(again.protocol, names.protocol);
        } else {
            client::read(&bytes[..end], false, &mut scratch, &mut names);
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
