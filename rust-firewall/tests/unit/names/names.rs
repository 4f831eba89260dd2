// SPDX-License-Identifier: GPL-2.0-or-later

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

/// What a stream's first bytes are known by never changes when more come.
#[test]
fn what_is_decided_stays_decided() {
    let mut cuts = 0;
    for block in FILES.iter().flat_map(|file| vectors::read(file)) {
        let what = block.value("ask").expect("what is asked");
        let (bytes, expect) = (block.bytes(), block.value("expect"));
        for end in 0..bytes.len() {
            let got = match what {
                "hello" | "client" | "framed" => ask(what, &bytes[..end]),
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
