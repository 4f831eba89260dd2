// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections packet by packet, as both ends send them: RFC 9293 without options, and what a client shows of names over it
//! (RFC 8446, 9112, 1035).

use super::boundary::plain;
use super::field::{TCP, UDP};
use super::packet::{Layer4, Packet};
use super::random::Random;
use super::tree::Group;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Names that clients ask for: those that policies of a run name, and others.
pub const HOSTS: [&str; 5] = [
    "one.example",
    "two.one.example",
    "three.example",
    "four.example",
    "one.example.net",
];
/// Protocols of ALPN that clients offer.
pub const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];
pub const METHODS: [&str; 2] = ["GET", "POST"];

/// A packet of a connection.
#[derive(Clone, Debug)]
pub struct Part {
    pub packet: Packet,
    pub from_client: bool,
    /// The client has not shown all yet.
    pub undecided: bool,
}

/// A list behind its length of some bytes.
fn with_length(bytes: usize, list: &[u8]) -> Vec<u8> {
    let length = (list.len() as u32).to_be_bytes();
    [&length[4 - bytes..], list].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_length(2, body)].concat()
}

/// Returns a record with a ClientHello.
fn client_hello(host: Option<&str>, protocol: Option<&str>) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(host) = host {
        let entry = [&[0], with_length(2, host.as_bytes()).as_slice()].concat();
        extensions.extend(extension(0, &with_length(2, &entry)));
    }
    if let Some(protocol) = protocol {
        let list = with_length(1, protocol.as_bytes());
        extensions.extend(extension(16, &with_length(2, &list)));
    }
    // supported_versions: TLS 1.3.
    extensions.extend(extension(43, &[2, 3, 4]));
    let mut body = vec![3, 3];
    body.extend([0x42; 32]);
    // No session, one suite, no compression.
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(with_length(2, &extensions));
    let hello = [&[1], with_length(3, &body).as_slice()].concat();
    [&[22, 3, 1], with_length(2, &hello).as_slice()].concat()
}

fn request(random: &mut Random) -> Vec<u8> {
    let (method, host) = (random.pick(&METHODS), random.pick(&HOSTS));
    format!("{method} / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// Returns what a client sends first.
fn opening(random: &mut Random) -> Vec<u8> {
    match random.weighted(&[6, 3, 1]) {
        0 => {
            let host = random.percent(85).then(|| *random.pick(&HOSTS));
            let protocol = random.percent(50).then(|| *random.pick(&PROTOCOLS));
            client_hello(host, protocol)
        }
        1 => request(random),
        _ => b"SSH-2.0-judge\r\n".to_vec(),
    }
}

/// Returns a question of DNS with its header, or the answer to it.
fn question(host: &str, kind: u16, is_answer: bool) -> Vec<u8> {
    let flags = if is_answer { 0x81 } else { 0x01 };
    let mut message = vec![0x12, 0x34, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.') {
        message.extend(with_length(1, label.as_bytes()));
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend(1_u16.to_be_bytes());
    message
}

/// Both ends of a connection of TCP while it is made.
struct Ends {
    client: Packet,
    server: Packet,
    /// Sequence numbers that client and server send next.
    next: (u32, u32),
    parts: Vec<Part>,
}

impl Ends {
    /// first: number of the connection's first packet. The sequence numbers of both ends begin at those of the first two.
    fn new(client: Packet, first: u32) -> Ends {
        let mut server = client.clone();
        server.turn_round();
        Ends {
            client,
            server,
            next: (first << 12, (first + 1) << 12),
            parts: Vec::new(),
        }
    }

    fn send(&mut self, from_client: bool, flags: u8, payload: &[u8], undecided: bool) {
        let (mut packet, numbers) = match from_client {
            true => (self.client.clone(), self.next),
            false => (self.server.clone(), (self.next.1, self.next.0)),
        };
        packet.payload = payload.to_vec();
        if let Layer4::Tcp {
            flags: own,
            sequence,
            ..
        } = &mut packet.layer4
        {
            *own = flags;
            let expected = if flags & ACK == 0 { 0 } else { numbers.1 };
            *sequence = Some((numbers.0, expected));
        }
        let taken = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        match from_client {
            true => self.next.0 += taken,
            false => self.next.1 += taken,
        }
        self.parts.push(Part {
            packet,
            from_client,
            undecided,
        });
    }
}

/// Makes a connection of TCP: its handshake, what the client shows whole or in two, what the server says, its end.
fn tcp(random: &mut Random, client: Packet, first: u32) -> Vec<Part> {
    let mut ends = Ends::new(client, first);
    ends.send(true, SYN, &[], true);
    ends.send(false, SYN | ACK, &[], true);
    ends.send(true, ACK, &[], true);
    let opening = opening(random);
    if random.percent(40) {
        let (one, two) = opening.split_at(1 + random.below(opening.len() - 1));
        ends.send(true, PSH | ACK, one, true);
        ends.send(false, ACK, &[], true);
        ends.send(true, PSH | ACK, two, false);
    } else {
        ends.send(true, PSH | ACK, &opening, false);
    }
    ends.send(false, ACK, &[], false);
    let words: [&[u8]; 2] = [b"HTTP/1.1 204 -\r\n\r\n", b"\x16\x03\x03\x00\x01\x02"];
    ends.send(false, PSH | ACK, random.pick::<&[u8]>(&words), false);
    let more = match opening.starts_with(b"\x16") {
        true => b"\x17\x03\x03\x00\x02..".to_vec(),
        false => request(random),
    };
    ends.send(true, PSH | ACK, &more, false);
    ends.send(false, ACK, &[], false);
    match random.below(3) {
        0 => {
            ends.send(true, FIN | ACK, &[], false);
            ends.send(false, FIN | ACK, &[], false);
            ends.send(true, ACK, &[], false);
        }
        1 => ends.send(false, RST | ACK, &[], false),
        _ => {}
    }
    ends.parts
}

/// Makes questions of DNS with their answers, or datagrams of something else.
fn udp(random: &mut Random, client: Packet, is_dns: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for _ in 0..1 + random.below(3) {
        let (host, kind) = (random.pick(&HOSTS), random.pick::<u16>(&[1, 28, 255]));
        for is_answer in [false, true] {
            let mut packet = client.clone();
            if is_answer {
                packet.turn_round();
            }
            packet.payload = match is_dns {
                true => question(host, *kind, is_answer),
                false => vec![0x10; 20],
            };
            parts.push(Part {
                packet,
                from_client: !is_answer,
                undecided: false,
            });
        }
    }
    parts
}

/// Address and port of an end.
fn port_of(packet: &Packet) -> (u16, u16) {
    match packet.layer4 {
        Layer4::Tcp {
            source,
            destination,
            ..
        }
        | Layer4::Udp {
            source,
            destination,
            ..
        } => (source, destination),
        _ => (0, 0),
    }
}

fn set_ports(packet: &mut Packet, to_source: u16, to_destination: u16) {
    if let Layer4::Tcp {
        source,
        destination,
        ..
    }
    | Layer4::Udp {
        source,
        destination,
        ..
    } = &mut packet.layer4
    {
        (*source, *destination) = (to_source, to_destination);
    }
}

/// Whether an address belongs to one host that may be elsewhere.
fn is_of_host(version: u8, address: u128) -> bool {
    match version {
        4 => {
            let first = address >> 24;
            first != 0 && first != 127 && first < 224
        }
        _ => address >> 120 != 0xff && address > 1 && address >> 118 != 0xfe80 >> 6,
    }
}

/// Makes a connection around the values of one of a policy's rules.
/// - number: of the connection within a run, at most some hundreds; its client's port is its own.
/// - first: number of its first packet; the others follow.
pub fn flow(random: &mut Random, groups: &[Group], number: u32, first: u32) -> Vec<Part> {
    let protocol = if random.percent(75) { TCP } else { UDP };
    let mut client = plain(random, groups, protocol);
    let usual = Packet::new(client.version, protocol);
    let is_whole = client.source != client.destination
        && [client.source, client.destination].map(|one| is_of_host(client.version, one))
            == [true; 2];
    if !is_whole {
        (client.source, client.destination) = (usual.source, usual.destination);
    }
    let (_, destination) = port_of(&client);
    let is_dns = protocol == UDP && random.percent(70);
    let destination = match (is_dns, destination) {
        (true, _) => 53,
        // Another port's packets are no questions.
        (false, 0 | 53) => 443,
        (false, port) => port,
    };
    set_ports(&mut client, 20_000 + number as u16, destination);
    let mut parts = match protocol {
        TCP => tcp(random, client, first),
        _ => udp(random, client, is_dns),
    };
    for (part, number) in parts.iter_mut().zip(first..) {
        part.packet.number = number;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_on_their_bytes() {
        let mut random = Random::new(3);
        for number in 0..50 {
            let parts = flow(&mut random, &[], number, 1 + 20 * number);
            let mut next = None;
            for part in &parts {
                let Layer4::Tcp {
                    sequence: Some((sent, expected)),
                    flags,
                    ..
                } = part.packet.layer4
                else {
                    continue;
                };
                let (own, other) = next.unwrap_or((sent, expected));
                let (own, other) = match part.from_client {
                    true => (own, other),
                    false => (other, own),
                };
                assert!(own == 0 || own == sent, "{part:?}");
                assert!(flags & ACK == 0 || other == expected, "{part:?}");
                let taken = part.packet.payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
                next = Some(match part.from_client {
                    true => (sent + taken, other),
                    false => (other, sent + taken),
                });
            }
        }
    }

    #[test]
    fn a_hello_has_its_lengths() {
        let hello = client_hello(Some("one.example"), Some("h2"));
        let length = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
        assert_eq!(length(3) + 5, hello.len());
        assert_eq!(length(7) + 9, hello.len());
    }
}
