// SPDX-License-Identifier: GPL-2.0-or-later
//! The line of state of an upgrade: what the shared vectors say of it.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use rust_firewall::carry::CarryKind;
use rust_firewall::flow::FlowCounter;
use rust_firewall::handover::Handover;
use rust_firewall::handover_state::{parse, print};

fn vectors() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/handover.txt");
    let text = fs::read_to_string(path).expect("the vectors");
    let mut state = None;
    let mut vectors = Vec::new();
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("state ") {
            state = Some(told.to_owned());
        } else if let Some(expect) = line.strip_prefix("expect ") {
            vectors.push((state.take().expect("a state before"), expect.to_owned()));
        }
    }
    vectors
}

#[test]
fn lines_are_taken_and_printed_as_the_vectors_say() {
    let vectors = vectors();
    assert!(vectors.len() > 20);
    for (line, expect) in vectors {
        let mut state = Handover::default();
        let result = parse(line.as_bytes(), &mut state);
        match expect.as_str() {
            "same" => assert_eq!(print(&state), line + "\n"),
            "ok" => assert!(result.is_ok(), "{line}"),
            refused => assert_eq!(result.expect_err(&line).text, refused),
        }
    }
}

#[test]
fn statements_are_numbered_through() {
    let line = r#"{"ok":true,"version":1,"pid":1,"generation":1,"queues":[{"queue":3,"copy_bytes":1,"flags":2,
        "stalled":4,"stats":{"received":5}}],"rules":[
        {"chain":"a","text":"b","counters":[[1,2],[3,4]],"quotas":[7]},
        {"chain":"a","text":"c","counters":[[5,6]],"quotas":[8],"logs":[9]}]}"#;
    let mut told = Handover::default();
    parse(line.as_bytes(), &mut told).expect("a good line");
    assert_eq!(told.queues[0].stats.received, 5);
    assert!(told.queues[0].fd.is_none());
    let rule = &told.side.rules[1];
    assert_eq!(rule.first[CarryKind::Counters as usize], 2);
    assert_eq!(rule.count[CarryKind::Counters as usize], 1);
    assert_eq!(rule.first[CarryKind::Quotas as usize], 1);
    let counter = FlowCounter {
        packets: 5,
        bytes: 6,
    };
    assert_eq!(told.counters[2], counter);
    assert_eq!(told.side.quota_words[1].0.load(Ordering::Relaxed), 8);
    assert_eq!(told.logged, [9]);
}
