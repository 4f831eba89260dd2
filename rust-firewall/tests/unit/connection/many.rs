// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests a hundred thousand simultaneous connections whose clients have not sent their names yet.

use std::mem::size_of_val;

use rust_firewall::connection::{follow, table, ConnectionChecksum, ConnectionInput};
use rust_firewall::connection::{ConnectionList, ConnectionSettings, Connections};
use rust_firewall::names::{NamesProtocol, NamesState};
use rust_firewall::packet::{self, Packet};

const CLIENTS: u32 = 100_000;
const SETTINGS: ConnectionSettings = ConnectionSettings {
    connections: 131_072,
    hello_bytes: 128 << 20,
    hello_timeout_ns: 10_000_000_000,
    undecided_bytes: 8192,
};
/// Limit of the memory for all connections, in bytes.
const MEMORY_BYTES: usize = 300 << 20;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PARTS: [&[u8]; 2] = [b"GET / HTTP/1.1\r\nHost: a.exa", b"mple\r\n\r\n"];

/// Sends a packet of a client, or the server's answer to it. Returns the state of the client's names after the packet.
fn send(connections: &mut Connections, client: u32, flags: u8, at: u32, data: &[u8]) -> NamesState {
    let is_answer = flags == SYN | ACK;
    let [_, high, middle, low] = client.to_be_bytes();
    let ends = [[10, high, middle, low, 0x80, 0], [192, 0, 2, 1, 0, 80]];
    let (from, to) = match is_answer {
        true => (ends[1], ends[0]),
        false => (ends[0], ends[1]),
    };
    let length = 40 + data.len() as u8;
    let mut bytes = vec![0x45, 0, 0, length, 0, 0, 0x40, 0, 64, 6, 0, 0];
    bytes.extend_from_slice(&from[..4]);
    bytes.extend_from_slice(&to[..4]);
    bytes.extend_from_slice(&from[4..]);
    bytes.extend_from_slice(&to[4..]);
    bytes.extend_from_slice(&at.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend_from_slice(data);
    let mut parsed = Packet::default();
    packet::parse(&bytes, bytes.len() as u32, &mut parsed);
    let how = ConnectionInput {
        checksum: ConnectionChecksum::Verified,
        generation: 1,
        now_ns: 1_000_000_000,
        ..ConnectionInput::default()
    };
    let followed = follow::follow(connections, &parsed, &how);
    follow::names(connections, &followed).state
}

/// Returns the number of bytes that are allocated for connections, touched or not.
fn memory_bytes(connections: &Connections) -> usize {
    let (table, pool) = (&connections.table, &connections.pool);
    let slots = table.slots.capacity() * size_of_val(&table.spare);
    let buckets = size_of_val(&table.buckets[..]) + size_of_val(&table.id_buckets[..]);
    let per_bucket = buckets + size_of_val(&table.graves[..]) + size_of_val(&table.shares[..]);
    slots + per_bucket + size_of_val(&pool.bytes[..]) + size_of_val(&pool.links[..])
}

#[test]
fn a_hundred_thousand_undecided_ones_are_all_kept() {
    let mut connections = follow::make(&SETTINGS);
    for client in 0..CLIENTS {
        send(&mut connections, client, SYN, 0, &[]);
        send(&mut connections, client, SYN | ACK, 0, &[]);
        let state = send(&mut connections, client, ACK, 1, PARTS[0]);
        assert_eq!(state, NamesState::Undecided, "client {client}");
    }
    let counts = follow::counts(&connections);
    assert_eq!(
        counts.now[ConnectionList::Showing as usize],
        u64::from(CLIENTS)
    );
    let at = 1 + PARTS[0].len() as u32;
    for client in 0..CLIENTS {
        let state = send(&mut connections, client, ACK, at, PARTS[1]);
        assert_eq!(state, NamesState::Known, "client {client}");
    }
    let counts = follow::counts(&connections);
    assert_eq!(
        counts.decided[NamesProtocol::Http as usize],
        u64::from(CLIENTS)
    );
    assert_eq!(counts.unreadable.iter().sum::<u64>(), 0);
    assert_eq!(counts.evicted.iter().sum::<u64>(), 0);
    assert!(!table::is_full(&connections.table));
    let memory = memory_bytes(&connections);
    assert!(memory < MEMORY_BYTES, "{memory} bytes");
}
