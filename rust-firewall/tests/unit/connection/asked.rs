// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests pending queries: only the right answer finds a query, once and in time, and in a full table the oldest
//! queries are replaced.

use rust_firewall::connection::{asked, ConnectionInput, INTERFACE_UNKNOWN};
use rust_firewall::names::answer::Answer;
use rust_firewall::packet::{self, Packet};

const SECOND_NS: u64 = 1_000_000_000;
/// Number of questions, larger than the table.
const QUESTIONS: u16 = 10_000;
/// Number of newest questions, none of which can have been replaced.
const NEWEST: u16 = 500;

/// Returns a UDP packet from or to the server.
/// - port: port of the client.
fn bytes_of(port: u16, from_server: bool) -> Vec<u8> {
    let (mut ends, mut ports) = ([[10, 0, 0, 1], [10, 0, 0, 53]], [port, 53]);
    if from_server {
        ends.reverse();
        ports.reverse();
    }
    let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend(ends.concat());
    bytes.extend(ports.map(u16::to_be_bytes).concat());
    bytes.extend([0, 8, 0, 0]);
    bytes
}

/// Returns the metadata of a packet between processes of this host, at a time.
fn at(now_ns: u64) -> ConnectionInput {
    ConnectionInput {
        now_ns,
        ..ConnectionInput::default()
    }
}

fn parsed(bytes: &[u8]) -> Packet<'_> {
    let mut parsed = Packet::default();
    packet::parse(bytes, bytes.len() as u32, &mut parsed);
    parsed
}

fn message(id: u16, is_answer: bool) -> Answer {
    let mut message = Answer {
        id,
        is_answer,
        dns_type: 1,
        class: 1,
        ..Answer::default()
    };
    message.host.length = 9;
    message.host.bytes[..9].copy_from_slice(b"a.example");
    message
}

#[test]
fn a_question_is_answered_once() {
    let mut asked = asked::make();
    let (query, told) = (bytes_of(4000, false), bytes_of(4000, true));
    let (query, told) = (parsed(&query), parsed(&told));
    let right = message(7, true);
    assert!(!asked::remove(&mut asked, &told, &right, &at(1)));
    asked::note(&mut asked, &query, &message(7, false), &at(1));
    asked::note(&mut asked, &query, &message(7, false), &at(2)); // the client sends its query again
    let mut others = [right; 4];
    others[0].id = 8;
    others[1].dns_type = 28;
    others[2].class = 3;
    others[3].host.bytes[0] = b'b';
    for other in &others {
        assert!(!asked::remove(&mut asked, &told, other, &at(3)));
    }
    assert!(!asked::remove(&mut asked, &query, &right, &at(3)));
    let other = bytes_of(4001, true);
    assert!(!asked::remove(&mut asked, &parsed(&other), &right, &at(3)));
    assert!(asked::remove(&mut asked, &told, &right, &at(3)));
    assert!(!asked::remove(&mut asked, &told, &right, &at(3)));
}

#[test]
fn a_question_waits_for_ten_seconds() {
    let mut asked = asked::make();
    let (query, told) = (bytes_of(4000, false), bytes_of(4000, true));
    let (query, told) = (parsed(&query), parsed(&told));
    for (seconds, expected) in [(9, true), (10, false), (11, false)] {
        asked::note(&mut asked, &query, &message(7, false), &at(SECOND_NS));
        let now_ns = SECOND_NS + seconds * SECOND_NS;
        assert_eq!(
            asked::remove(&mut asked, &told, &message(7, true), &at(now_ns)),
            expected
        );
    }
}

#[test]
fn an_answer_comes_from_where_its_question_went() {
    const ANY: u32 = INTERFACE_UNKNOWN;
    let mut asked = asked::make();
    let (query, told) = (bytes_of(4000, false), bytes_of(4000, true));
    let (query, told) = (parsed(&query), parsed(&told));
    let by = |(source_interface, sink_interface)| ConnectionInput {
        source_interface,
        sink_interface,
        ..at(1)
    };
    let cases = [
        ((2, 3), (3, 2), true),
        ((2, 3), (2, 2), false),
        ((2, 3), (3, 4), false),
        ((2, 3), (0, 2), false),
        ((2, ANY), (3, ANY), true),
        ((2, ANY), (2, ANY), false),
        ((0, ANY), (0, ANY), true),
        ((0, 3), (3, 0), true),
        ((0, 3), (0, 0), false),
        ((2, 2), (2, 2), true),
    ];
    for (asks, tells, expected) in cases {
        asked::note(&mut asked, &query, &message(7, false), &by(asks));
        let is_taken = asked::remove(&mut asked, &told, &message(7, true), &by(tells));
        assert_eq!(is_taken, expected, "{asks:?} {tells:?}");
    }
}

#[test]
fn the_oldest_questions_make_room() {
    let mut asked = asked::make();
    let (query, told) = (bytes_of(4000, false), bytes_of(4000, true));
    for id in 0..QUESTIONS {
        asked::note(
            &mut asked,
            &parsed(&query),
            &message(id, false),
            &at(u64::from(id) + 1),
        );
    }
    let mut left = 0;
    for id in 0..QUESTIONS {
        let is_there = asked::remove(&mut asked, &parsed(&told), &message(id, true), &at(1));
        assert!(is_there || id < QUESTIONS - NEWEST, "{id}");
        left += usize::from(is_there);
    }
    assert!((3500..=4096).contains(&left), "{left}");
}
