// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the line of state of an upgrade with the vectors that both twins share.

use std::fs;
use std::path::Path;

use rust_firewall::base::counts::Count;
use rust_firewall::handover::counted::{parse_states, states_bytes};
use rust_firewall::handover::state::{parse, print};
use rust_firewall::handover::{self, Handover};
use rust_firewall::options::{self, OptionsAction};

fn vectors() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors/handover.txt");
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
fn relative_paths_of_options_become_absolute() {
    let words = ["firewall", "--control", "control", "--events", "unix:sink"];
    let Ok(OptionsAction::Run(options)) = options::parse(&words.map(Into::into)) else {
        panic!("{words:?}");
    };
    let folder = std::env::current_dir().expect("a folder");
    let folder = folder.to_str().expect("a path in UTF-8");
    let expected = [format!("{folder}/control"), format!("unix:{folder}/sink")];
    assert_eq!(handover::values(&options), expected.map(Some));
}

#[test]
fn numbers_go_where_their_names_say() {
    let line = r#"{"ok":true,"version":2,"pid":1,"generation":1,"counts":["later","stalls"],
        "stats":["bytes","received","later"],"queues":[{"queue":3,"copy_bytes":1,"flags":2}]}"#;
    let mut told = Handover::default();
    parse(line.as_bytes(), &mut told).expect("a good line");
    assert!(told.queues[0].fd.is_none());
    assert_eq!(told.count_places, [None, Some(2)]);
    assert_eq!(told.stat_places, [Some(1), Some(0), None]);
    let words = [1_u64, 2, 3, 4, 5, 6];
    let bytes: Vec<_> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    assert_eq!(states_bytes(&told), bytes.len() as u64);
    parse_states(&bytes, &mut told).expect("good numbers");
    assert_eq!(told.counts[Count::Stalls as usize], 2);
    assert_eq!(told.queues[0].stalled, 3);
    assert_eq!(
        (told.queues[0].stats.bytes, told.queues[0].stats.received),
        (4, 5)
    );
}
