// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests DNS over TCP with more queries than one packet or the stored stream can contain.

use rust_firewall::connection::queries::QUERIES_MAX;
use rust_firewall::connection::{
    follow, ConnectionCause, ConnectionChecksum, ConnectionInput, ConnectionSettings, Connections,
    Followed, BLOCKS_MAX,
};
use rust_firewall::names::{NamesProtocol, NamesState};
use rust_firewall::packet::{self, Packet};

/// Size of a query with its length field, in bytes.
const QUERY_BYTES: usize = 34;
const QUERIES: usize = 2000;
/// Number of bytes of the stream in each packet.
const PART_BYTES: usize = 100;
/// Number of sent bytes that the server leaves unacknowledged: its ACKs are this far behind the client.
const LATE_BYTES: usize = 9000;
/// Sequence numbers of the client's first byte, and of the server's first byte.
const FIRST: u32 = 1000;
const ANSWER: u32 = 5000;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const SETTINGS: ConnectionSettings = ConnectionSettings {
    connections: 16,
    hello_bytes: 65536,
    hello_timeout_ns: 10_000_000_000,
    undecided_bytes: 8192,
};

/// Returns queries for q00000.example, q00001.example and so on.
fn make_queries(count: usize) -> Vec<u8> {
    const HEAD: [u8; 14] = [0, 32, 0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const TAIL: &[u8] = b"\x07example\0\0\x01\0\x01";
    let query = |number| {
        let name = format!("\u{6}q{number:05}");
        [&HEAD[..], name.as_bytes(), TAIL].concat()
    };
    let bytes: Vec<u8> = (0..count).flat_map(query).collect();
    assert_eq!(bytes.len(), count * QUERY_BYTES);
    bytes
}

/// Sends a packet of the client or the server. Returns the result for the packet.
fn send(
    connections: &mut Connections,
    from_client: bool,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    data: &[u8],
) -> Followed {
    let (client, server) = ([10, 0, 0, 1, 0x80, 0], [192, 0, 2, 1, 0, 53]);
    let (from, to) = match from_client {
        true => (client, server),
        false => (server, client),
    };
    let [high, low] = (40 + data.len() as u16).to_be_bytes();
    let bytes = [
        &[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0][..],
        &from[..4],
        &to[..4],
        &from[4..],
        &to[4..],
        &sequence.to_be_bytes(),
        &acknowledged.to_be_bytes(),
        &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
        data,
    ]
    .concat();
    let mut parsed = Packet::default();
    packet::parse(&bytes, bytes.len() as u32, &mut parsed);
    let how = ConnectionInput {
        checksum: ConnectionChecksum::Verified,
        generation: 1,
        now_ns: 1_000_000_000,
        ..ConnectionInput::default()
    };
    follow::follow(connections, &parsed, &how)
}

fn begin() -> Connections {
    let mut connections = follow::make(&SETTINGS);
    send(&mut connections, true, SYN, FIRST - 1, 0, &[]);
    send(&mut connections, false, SYN | ACK, ANSWER - 1, FIRST, &[]);
    connections
}

/// Returns true if a packet's current name is the name in DNS query `number`.
fn is_query(connections: &Connections, followed: &Followed, number: usize) -> bool {
    let names = follow::names(connections, followed);
    let host = format!("q{number:05}.example");
    names.state == NamesState::Known
        && names.protocol == NamesProtocol::Dns
        && names.host[..usize::from(names.host_length)] == *host.as_bytes()
}

/// Sends `count` queries in one packet. Checks that each of the first QUERIES_MAX queries decides the packet, and that
/// the packet is then unreadable if there are more.
fn check_one_packet(count: usize) {
    let read = count.min(QUERIES_MAX as usize);
    let bytes = make_queries(count);
    let mut connections = begin();
    let followed = send(&mut connections, true, ACK, FIRST, ANSWER, &bytes);
    for number in 0..read {
        assert!(number == 0 || follow::next(&mut connections));
        assert!(is_query(&connections, &followed, number));
    }
    assert_eq!(follow::next(&mut connections), count > read);
    if count > read {
        let state = follow::names(&connections, &followed).state;
        assert_eq!(state, NamesState::Unreadable);
    }
    assert!(!follow::next(&mut connections));
    let counts = follow::counts(&connections);
    assert_eq!(counts.decided[NamesProtocol::Dns as usize], read as u64);
    let gaps = counts.unreadable[ConnectionCause::Gaps as usize];
    assert_eq!(gaps, u64::from(count > read));
}

#[test]
fn a_packet_with_more_queries_than_are_read_is_unreadable() {
    check_one_packet(QUERIES_MAX as usize);
    check_one_packet(QUERIES_MAX as usize + 1);
}

#[test]
fn queries_without_end_are_read_in_the_same_memory() {
    let all = make_queries(QUERIES);
    let mut connections = begin();
    let mut sent = 0;
    for part in all.chunks(PART_BYTES) {
        let at = FIRST + sent as u32;
        let followed = send(&mut connections, true, ACK, at, ANSWER, part);
        let mut query = sent / QUERY_BYTES;
        sent += part.len();
        loop {
            assert!(is_query(&connections, &followed, query), "{query}");
            query += 1;
            if !follow::next(&mut connections) {
                break;
            }
        }
        assert_eq!(query, sent / QUERY_BYTES);
        if sent > LATE_BYTES {
            let acknowledged = FIRST + (sent - LATE_BYTES) as u32;
            send(&mut connections, false, ACK, ANSWER, acknowledged, &[]);
        }
    }
    let counts = follow::counts(&connections);
    let decided = counts.decided[NamesProtocol::Dns as usize];
    assert_eq!(decided, QUERIES as u64);
    assert_eq!(counts.unreadable.iter().sum::<u64>(), 0);
    assert!(connections.pool.used as usize <= BLOCKS_MAX);
}
