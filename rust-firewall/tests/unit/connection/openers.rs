// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests flows with port 53: the end that opened a flow, the flow's lifetime, and full tables.

use rust_firewall::connection::openers::{self, Openers};
use rust_firewall::connection::{ConnectionInput, INTERFACE_UNKNOWN};
use rust_firewall::packet::{self, Packet};

const SECOND_NS: u64 = 1_000_000_000;
/// Ports of a client, with more flows than there is room for.
const PORTS: std::ops::Range<u16> = 10_000..50_000;
const SERVER: [u8; 4] = [10, 0, 0, 53];
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [10, 0, 0, 2];

/// Returns a UDP packet between two addresses and ports.
fn bytes_of(source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend([source.0, destination.0].concat());
    bytes.extend([source.1, destination.1].map(u16::to_be_bytes).concat());
    bytes.extend([0, 8, 0, 0]);
    bytes
}

fn parsed(bytes: &[u8]) -> Packet<'_> {
    let mut parsed = Packet::default();
    packet::parse(bytes, bytes.len() as u32, &mut parsed);
    parsed
}

/// Returns the metadata of a packet between processes of this host, at a time in seconds.
fn at(seconds: u64) -> ConnectionInput {
    ConnectionInput {
        now_ns: seconds * SECOND_NS,
        ..ConnectionInput::default()
    }
}

/// Passes a packet from port 53 of a server to a client to `openers`.
fn tell_from(openers: &mut Openers, server: [u8; 4], client: ([u8; 4], u16), how: ConnectionInput) {
    let bytes = bytes_of((server, 53), client);
    openers::note(openers, &parsed(&bytes), &how);
}

fn tell(openers: &mut Openers, port: u16, how: ConnectionInput) {
    tell_from(openers, SERVER, (CLIENT, port), how);
}

/// Passes a packet from a client to port 53 of the server to `openers`. Returns true if `openers` then reports that the
/// client opened the flow.
fn ask_of(openers: &mut Openers, client: [u8; 4], port: u16, how: ConnectionInput) -> bool {
    let bytes = bytes_of((client, port), (SERVER, 53));
    openers::note(openers, &parsed(&bytes), &how);
    openers::is_clients(openers, &parsed(&bytes), &how)
}

fn ask(openers: &mut Openers, port: u16, how: ConnectionInput) -> bool {
    ask_of(openers, CLIENT, port, how)
}

#[test]
fn the_first_packet_opens_a_flow() {
    let mut openers = openers::make();
    assert!(ask(&mut openers, 4000, at(1)));
    tell(&mut openers, 4000, at(1));
    assert!(ask(&mut openers, 4000, at(2)));
    tell(&mut openers, 4001, at(1));
    assert!(!ask(&mut openers, 4001, at(1)));
    assert!(!ask(&mut openers, 4001, at(2)));
    assert!(ask(&mut openers, 4002, at(2)));
    assert!(ask_of(&mut openers, OTHER, 4001, at(2)));
}

#[test]
fn a_flow_lasts_from_its_last_packet() {
    // Seconds of the server's packet, of the client's, and of the client's next one.
    let cases = [
        (1, 1, 180, false),
        (1, 1, 181, true),
        (1, 100, 279, false),
        (1, 100, 280, true),
    ];
    for (told, said, asked, expected) in cases {
        let mut openers = openers::make();
        tell(&mut openers, 4000, at(told));
        ask(&mut openers, 4000, at(said));
        let is_clients = ask(&mut openers, 4000, at(asked));
        assert_eq!(is_clients, expected, "{told} {said} {asked}");
    }
}

#[test]
fn a_forgotten_client_opens_nothing() {
    let mut openers = openers::make();
    assert!(ask(&mut openers, 4000, at(1)));
    tell(&mut openers, 4000, at(180));
    assert!(ask(&mut openers, 4000, at(180)));
    tell(&mut openers, 4000, at(360));
    assert!(!ask(&mut openers, 4000, at(360)));
}

#[test]
fn a_flow_with_two_ports_53_is_of_its_first_end() {
    let mut openers = openers::make();
    let (to, back) = (
        bytes_of((CLIENT, 53), (SERVER, 53)),
        bytes_of((SERVER, 53), (CLIENT, 53)),
    );
    let (to, back) = (parsed(&to), parsed(&back));
    openers::note(&mut openers, &to, &at(1));
    openers::note(&mut openers, &back, &at(1));
    assert!(openers::is_clients(&openers, &to, &at(1)));
    assert!(!openers::is_clients(&openers, &back, &at(1)));
}

#[test]
fn a_client_of_another_interface_opens_nothing() {
    const ANY: u32 = INTERFACE_UNKNOWN;
    let by = |(source_interface, sink_interface)| ConnectionInput {
        source_interface,
        sink_interface,
        ..at(1)
    };
    // Interfaces of a packet in the client's name, of the server's, and the client's own.
    let cases = [
        ((2, 3), (3, 2), 2, true),
        ((3, 3), (3, 2), 2, false),
        ((3, ANY), (3, ANY), 2, false),
        ((2, ANY), (3, ANY), 2, true),
        ((0, ANY), (3, 0), 0, true),
        ((3, ANY), (3, 0), 0, false),
    ];
    for (forged, told, asked, expected) in cases {
        let mut openers = openers::make();
        ask(&mut openers, 4000, by(forged));
        tell(&mut openers, 4000, by(told));
        let is_clients = ask(&mut openers, 4000, by((asked, told.0)));
        assert_eq!(is_clients, expected, "{forged:?} {told:?} {asked}");
    }
}

#[test]
fn many_flows_of_a_service_leave_room_for_other_clients() {
    let mut openers = openers::make();
    for number in 0..PORTS.len() as u16 {
        let [high, low] = number.to_be_bytes();
        tell_from(&mut openers, [10, 0, high, low], (CLIENT, 443), at(1));
    }
    assert!(!ask(&mut openers, 443, at(1)));
    for port in PORTS {
        assert!(ask(&mut openers, port, at(1)), "{port}");
    }
}

#[test]
fn without_room_no_client_opens_a_flow() {
    let mut openers = openers::make();
    for port in 4000..4100 {
        assert!(ask(&mut openers, port, at(1)));
    }
    for port in PORTS {
        tell(&mut openers, port, at(1));
    }
    for port in PORTS {
        assert!(!ask(&mut openers, port, at(180)), "{port}");
    }
    for port in 4000..4100 {
        assert!(ask(&mut openers, port, at(180)), "{port}");
    }
    for port in 4000..4100 {
        assert!(!ask_of(&mut openers, OTHER, port, at(180)), "{port}");
    }
    for port in 4000..4100 {
        assert!(ask_of(&mut openers, OTHER, port, at(181)), "{port}");
    }
}
