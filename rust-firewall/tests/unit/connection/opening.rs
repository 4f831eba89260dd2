// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the sequence numbers of a server that sends more than they can count.

use rust_firewall::connection::opening::{hear, is_acknowledging};
use rust_firewall::connection::segment::{Segment, ACK};
use rust_firewall::connection::{Connection, ConnectionInput, KEY_WORDS};

const BEGUN: u32 = 5000;
/// Length of a segment's data.
const LENGTH: u32 = 1000;

fn segment(sequence: u32, acknowledged: u32) -> Segment<'static> {
    Segment {
        key: [0; KEY_WORDS],
        hash: 0,
        is_low: true,
        source_port: 443,
        destination_port: 40000,
        flags: ACK,
        is_multipath: false,
        sequence,
        acknowledged,
        data: &[],
        length: LENGTH,
        input: ConnectionInput::default(),
        now_ns: 0,
    }
}

#[test]
fn the_last_bytes_before_the_numbers_repeat_can_be_acknowledged() {
    let mut connection = Connection {
        confirmed: true,
        server_begun: BEGUN,
        server_end: BEGUN.wrapping_sub(LENGTH),
        ..Connection::default()
    };
    let latest = segment(0, BEGUN.wrapping_sub(1));
    assert!(!is_acknowledging(&connection, &latest));
    assert!(hear(
        &mut connection,
        &segment(BEGUN.wrapping_sub(LENGTH / 2), 0)
    ));
    assert!(is_acknowledging(&connection, &latest));
    assert!(hear(&mut connection, &segment(BEGUN + LENGTH / 2, 0)));
    assert!(is_acknowledging(&connection, &latest));
}
