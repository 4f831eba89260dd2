// SPDX-License-Identifier: GPL-2.0-or-later
//! Benchmark of packets of clients that show names. It does the same as a worker, except for the queue: packets are
//! parsed, followed in their connections, and decided. The packets of the C twin's bench/names.c are the same, except
//! for some filler bytes.

mod client;
pub mod lookup;

use rust_firewall::connection::{follow, ConnectionChecksum, ConnectionInput};
use rust_firewall::connection::{ConnectionSettings, Connections};
use rust_firewall::engine::flow::DecidePolicy;
use rust_firewall::engine::{decide, named};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet};

use crate::cases::{compile, make_input, Subject, PACKETS, SETTINGS};

const POLICY: &str = "table inet filter {
\tset listed {
\t\ttype hostname
\t\telements = { \"listed.example\", \"*.tracker.example\" }
\t}
\tchain input {
\t\ttype filter hook input priority filter; policy accept;
\t\ttls sni @listed drop
\t\tth dport 53 dns name @listed drop
\t}
}
";
/// Maximum number of connections: twice the number of clients in a round. Beyond that, old connections are evicted.
const CONNECTIONS: u32 = 2 * PACKETS as u32;
const HELLO_BYTES: u64 = 4 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const HEADER_BYTES: usize = 20;
/// Offsets of source and destination address in the IPv4 header.
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Sequence numbers of the first bytes of a client and of its server.
const CLIENT_FIRST: u32 = 1000;
const SERVER_FIRST: u32 = 5000;
/// Sequence number up to which the server acknowledges a client's ClientHello, which has fewer than 4000 bytes.
const KNOWN: u32 = CLIENT_FIRST + 4000;
/// First bytes of a ServerHello that is no HelloRetryRequest: headers of record and message, version, first random
/// byte.
const SERVER_HELLO: [u8; 12] = [22, 3, 3, 0, 122, 2, 0, 0, 118, 3, 3, b'r'];
/// Sizes of key shares in bytes: for a ClientHello in one packet, and for a ClientHello in two packets (with
/// ML-KEM-768).
const SHARE_BYTES: usize = 320;
const LONG_SHARE_BYTES: usize = 1216;
/// Maximum number of data bytes in a packet.
const SEGMENT_BYTES: usize = 1400;

/// Packet of a benchmark case. Before it is decided, the address and port of one of the case's clients are written into
/// it.
struct Step {
    from_client: bool,
    bytes: Vec<u8>,
}

/// Benchmark case in which all clients send the same packets.
pub struct NamedCase {
    pub name: &'static str,
    /// Returns the packets of each client's connection before the measurement, in both directions. If there are none,
    /// each round has new clients. Otherwise all rounds have the same clients.
    before: fn() -> Vec<Step>,
    each: fn() -> Vec<Step>,
}

pub const CASES: [NamedCase; 8] = [
    NamedCase {
        name: "names-packet",
        before: known,
        each: || vec![tcp(true, ACK, KNOWN, SERVER_FIRST, &[b'x'; 64])],
    },
    NamedCase {
        name: "names-opening",
        before: Vec::new,
        each: opening,
    },
    NamedCase {
        name: "names-hello-1",
        before: Vec::new,
        each: || hello(SHARE_BYTES),
    },
    NamedCase {
        name: "names-hello-2",
        before: Vec::new,
        each: || hello(LONG_SHARE_BYTES),
    },
    NamedCase {
        name: "names-lines",
        before: Vec::new,
        each: || lines(),
    },
    NamedCase {
        name: "names-records",
        before: Vec::new,
        each: records,
    },
    NamedCase {
        name: "names-quic",
        before: Vec::new,
        each: || vec![udp(443, &client::initial(&client::hello(SHARE_BYTES)))],
    },
    NamedCase {
        name: "names-dns",
        before: Vec::new,
        each: || vec![udp(53, &client::query())],
    },
];

/// Creates an IPv4 packet between a client in 10.0.0.0/8 and the server 192.0.2.1.
fn ipv4(from_client: bool, protocol: u8, segment: &[u8]) -> Step {
    let length = ((HEADER_BYTES + segment.len()) as u16).to_be_bytes();
    let mut bytes = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol];
    bytes.extend_from_slice(&[0; HEADER_BYTES - 10]);
    let (client, server) = match from_client {
        true => (SOURCE, DESTINATION),
        false => (DESTINATION, SOURCE),
    };
    bytes[client] = 10;
    bytes[server..server + 4].copy_from_slice(&[192, 0, 2, 1]);
    bytes.extend_from_slice(segment);
    Step { from_client, bytes }
}

fn tcp(from_client: bool, flags: u8, sequence: u32, acknowledged: u32, data: &[u8]) -> Step {
    let mut segment = vec![1, 187, 1, 187];
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&acknowledged.to_be_bytes());
    segment.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(data);
    ipv4(from_client, TCP, &segment)
}

fn udp(port: u16, data: &[u8]) -> Step {
    let mut segment = vec![0, 0];
    segment.extend_from_slice(&port.to_be_bytes());
    segment.extend_from_slice(&(8 + data.len() as u16).to_be_bytes());
    segment.extend_from_slice(&[0, 0]);
    segment.extend_from_slice(data);
    ipv4(true, UDP, &segment)
}

/// Creates the SYN and SYN-ACK of a connection.
fn opening() -> Vec<Step> {
    vec![
        tcp(true, SYN, CLIENT_FIRST - 1, 0, &[]),
        tcp(false, SYN | ACK, SERVER_FIRST - 1, CLIENT_FIRST, &[]),
    ]
}

/// Creates the packets of a connection from its SYN to the client's first data.
/// - segments: data of the client's packets.
fn show(segments: &[Vec<u8>]) -> Vec<Step> {
    let mut steps = opening();
    let mut sequence = CLIENT_FIRST;
    for data in segments {
        steps.push(tcp(true, ACK, sequence, SERVER_FIRST, data));
        sequence += data.len() as u32;
    }
    steps
}

/// Creates the packets of a connection up to its ClientHello, which is split into segments of at most SEGMENT_BYTES.
fn hello(share_bytes: usize) -> Vec<Step> {
    let bytes = client::record(&client::hello(share_bytes));
    let segments: Vec<Vec<u8>> = bytes.chunks(SEGMENT_BYTES).map(<[u8]>::to_vec).collect();
    show(&segments)
}

/// Creates the packets of a connection with an HTTP request, which has a packet for each line.
fn lines() -> Vec<Step> {
    let request = client::request();
    let lines = request.split_inclusive(|byte| *byte == b'\n');
    show(&lines.map(<[u8]>::to_vec).collect::<Vec<_>>())
}

/// Creates the packets of a connection up to its ClientHello, which has a TLS record and a packet for each byte.
fn records() -> Vec<Step> {
    let hello = client::hello(0);
    show(&hello.chunks(1).map(client::record).collect::<Vec<_>>())
}

/// Creates the packets of a connection up to the server's answer to the ClientHello.
fn known() -> Vec<Step> {
    let mut steps = hello(SHARE_BYTES);
    steps.push(tcp(false, ACK, SERVER_FIRST, KNOWN, &SERVER_HELLO));
    steps
}

/// State of a case that is measured.
pub struct NamedSubject {
    subject: Subject,
    connections: Connections,
    steps: Vec<Step>,
    /// Number of the next client.
    client: u32,
    again: bool,
    now_ns: u64,
}

pub fn make(case: &NamedCase) -> NamedSubject {
    let settings = ConnectionSettings {
        connections: CONNECTIONS,
        hello_bytes: HELLO_BYTES,
        hello_timeout_ns: 10 * SECOND_NS,
        undecided_bytes: 8192,
    };
    let mut subject = NamedSubject {
        subject: compile(POLICY),
        connections: follow::make(&settings),
        steps: (case.before)(),
        client: 0,
        again: false,
        now_ns: SECOND_NS,
    };
    if !subject.steps.is_empty() {
        round(&mut subject);
        subject.again = true;
    }
    subject.steps = (case.each)();
    subject
}

/// Writes a client's address and port into a packet: as source in the client's packets, as destination in the server's.
fn set_client(step: &mut Step, client: u32) {
    let [_, a, b, c] = (client >> 8).to_be_bytes();
    let (address, port) = match step.from_client {
        true => (SOURCE, HEADER_BYTES),
        false => (DESTINATION, HEADER_BYTES + 2),
    };
    step.bytes[address + 1..address + 4].copy_from_slice(&[a, b, c]);
    step.bytes[port] = 0x80;
    step.bytes[port + 1] = client as u8;
}

/// Follows and decides a packet, as a worker does. Returns true if the packet is accepted.
fn decide_one(subject: &mut NamedSubject, step: usize) -> bool {
    let bytes = &subject.steps[step].bytes;
    let mut parsed = Packet::default();
    let status = packet::parse(bytes, bytes.len() as u32, &mut parsed);
    let mut input = make_input(&parsed, status);
    let how = ConnectionInput {
        checksum: ConnectionChecksum::Verified,
        generation: 1,
        now_ns: subject.now_ns,
        ..ConnectionInput::default()
    };
    let compiled = &subject.subject.compiled;
    let found = named::follow(&mut subject.connections, compiled, &parsed, &how);
    let names = follow::names(&subject.connections, &found.followed);
    named::tell(&found, names, &mut input);
    let policy = DecidePolicy {
        compiled,
        flow: &subject.subject.flow,
        counters: &subject.subject.counters,
    };
    let outcome = decide::packet(&SETTINGS, Some(&policy), &input);
    outcome.verdict == Verdict::Accept && !named::refuses(&found, &outcome)
}

/// Decides the packets of PACKETS clients. Returns the number of accepted packets.
pub fn round(subject: &mut NamedSubject) -> u32 {
    let mut accepted = 0;
    if subject.again {
        subject.client = 0;
    }
    for _ in 0..PACKETS {
        for step in 0..subject.steps.len() {
            set_client(&mut subject.steps[step], subject.client);
            accepted += u32::from(decide_one(subject, step));
        }
        subject.client += 1;
        subject.now_ns += 1000;
    }
    accepted
}
