// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets of whole connections: TCP with TLS, HTTP, DNS or other data (RFC 9293), QUIC, and DNS queries over UDP.

use super::field::{TCP, UDP};
use super::hello;
use super::packet::{Layer4, Packet};
use super::quic::{self, Ids};
use super::random::Random;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Packet of a connection.
#[derive(Clone, Debug)]
pub struct Step {
    /// True if the server sends it.
    pub is_servers: bool,
    pub packet: Packet,
}

/// Addresses, ports, hop limit and traffic class of all packets of a connection.
#[derive(Clone, Debug)]
pub struct Ends {
    pub version: u8,
    pub client: u128,
    pub server: u128,
    pub ports: (u16, u16),
    pub hops: u8,
    pub traffic_class: u8,
}

/// Protocol that a client and a server speak over TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    Tls,
    Quic,
    Http,
    DnsOverTcp,
    DnsOverUdp,
    /// Data of another protocol.
    Other,
}

/// Minimum hop limit of a connection's packets, so that a router forwards them.
const HOPS_MIN: u8 = 3;
const IPV4_DEFAULT: (u128, u128) = (0x0a00_0001, 0x0a00_0002);
const IPV6_DEFAULT: (u128, u128) = (0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2);

/// Returns true if an address can belong to a single host.
fn is_host(version: u8, address: u128) -> bool {
    match version {
        4 => (1..=223).contains(&(address >> 24)) && address >> 24 != 127,
        // Neither unspecified, loopback, link-local nor multicast.
        _ => address > 1 && address >> 118 != 0x3fa && address >> 120 != 0xff,
    }
}

impl Ends {
    /// Returns the ends of a packet. Replaces addresses and ports that a connection can't have.
    pub fn of(packet: &Packet, random: &mut Random) -> Ends {
        let (client, server) = match packet.version {
            4 => IPV4_DEFAULT,
            _ => IPV6_DEFAULT,
        };
        let or = |address, default| match is_host(packet.version, address) {
            true => address,
            false => default,
        };
        let port = |port: u16, default| if port == 0 { default } else { port };
        let ephemeral = 32768 + random.below(28000) as u16;
        let ports = match packet.layer4 {
            Layer4::Tcp {
                source,
                destination,
                ..
            }
            | Layer4::Udp {
                source,
                destination,
                ..
            } => (port(source, ephemeral), port(destination, 443)),
            _ => (ephemeral, 443),
        };
        // Replaces 40000, the source port of packets if no rule tests another one.
        let ports = (if ports.0 == 40000 { ephemeral } else { ports.0 }, ports.1);
        Ends {
            version: packet.version,
            client: or(packet.source, client),
            server: or(packet.destination, server),
            ports,
            hops: packet.hops.max(HOPS_MIN),
            traffic_class: packet.traffic_class,
        }
    }

    /// Returns a packet of one end, without payload.
    fn packet(&self, is_servers: bool, protocol: u8) -> Packet {
        let mut packet = Packet::new(self.version, protocol);
        (packet.source, packet.destination) = (self.client, self.server);
        (packet.hops, packet.traffic_class) = (self.hops, self.traffic_class);
        let ports = self.ports;
        match &mut packet.layer4 {
            Layer4::Tcp {
                source,
                destination,
                ..
            }
            | Layer4::Udp {
                source,
                destination,
                ..
            } => (*source, *destination) = ports,
            _ => {}
        }
        if is_servers {
            packet.turn_round();
        }
        packet
    }
}

/// TCP connection whose packets are being made.
struct Tcp<'a> {
    ends: &'a Ends,
    /// Next sequence numbers of client and server.
    next: [u32; 2],
    steps: Vec<Step>,
}

impl Tcp<'_> {
    fn say(&mut self, is_servers: bool, flag: u8, payload: &[u8]) {
        let mut packet = self.ends.packet(is_servers, TCP);
        let (own, other) = (usize::from(is_servers), usize::from(!is_servers));
        if let Layer4::Tcp { flags, .. } = &mut packet.layer4 {
            *flags = flag;
        }
        let acknowledged = if flag & ACK == 0 { 0 } else { self.next[other] };
        packet.sequence = Some((self.next[own], acknowledged));
        packet.payload = payload.to_vec();
        let taken = payload.len() as u32 + u32::from(flag & (SYN | FIN) != 0);
        self.next[own] = self.next[own].wrapping_add(taken);
        self.steps.push(Step { is_servers, packet });
    }

    /// Sends the last packet again.
    fn repeat(&mut self) {
        self.steps.extend(self.steps.last().cloned());
    }
}

/// Returns the first bytes of a server: a ServerHello of TLS 1.3 (RFC 8446, section 4.1.3), an HTTP response, or other
/// data.
fn answer(speech: Speech) -> Vec<u8> {
    match speech {
        Speech::Tls => {
            let extensions = [
                &[0, 43, 0, 2, 3, 4, 0, 51, 0, 36, 0, 0x1d, 0, 32][..],
                &[5; 32],
            ];
            let extensions = extensions.concat();
            let length = (extensions.len() as u16).to_be_bytes();
            let random = [&[3, 3][..], &[9; 32], &[32], &[8; 32]].concat();
            let body = [&random[..], &[0x13, 1, 0], &length, &extensions].concat();
            let message = [&[2, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
            let length = (message.len() as u16).to_be_bytes();
            [&[0x16, 3, 3][..], &length, &message].concat()
        }
        Speech::Http => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
        _ => vec![0x42; 40],
    }
}

/// Returns a DNS query (RFC 1035, section 4.1).
/// - kind: queried record type.
pub fn question(host: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// Queried record types: A, AAAA, ANY.
const KINDS: [u16; 3] = [1, 28, 255];
/// Protocols that hellos offer (ALPN).
const OFFERS: [&[u8]; 3] = [b"\x08http/1.1", b"\x02h2\x08http/1.1", b"\x02h3"];

/// Returns the client's first data.
fn opening(random: &mut Random, speech: Speech, host: &str) -> Vec<u8> {
    match speech {
        Speech::Tls => hello::tls_offering(host, random.pick::<&[u8]>(&OFFERS)),
        Speech::Quic => hello::quic_offering(host, random.pick::<&[u8]>(&OFFERS)),
        Speech::Http => hello::http(host, "\r\n").bytes,
        Speech::DnsOverTcp => {
            let question = question(host, *random.pick(&KINDS));
            [&(question.len() as u16).to_be_bytes()[..], &question].concat()
        }
        Speech::DnsOverUdp => question(host, *random.pick(&KINDS)),
        Speech::Other => b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(),
    }
}

fn datagram(ends: &Ends, is_servers: bool, payload: Vec<u8>) -> Step {
    let mut packet = ends.packet(is_servers, UDP);
    packet.payload = payload;
    Step { is_servers, packet }
}

/// Returns the packets of a QUIC connection: a hello in one or two Initial packets, Handshake packets, and packets with
/// a short header.
fn datagrams(random: &mut Random, ends: &Ends, hello: &[u8]) -> Vec<Step> {
    let ids = Ids::new(ends.ports.0);
    let cut = match random.percent(40) {
        true => 1 + random.below(hello.len() - 1),
        false => hello.len(),
    };
    let mut steps = Vec::new();
    for (number, (from, to)) in (0..).zip([(0, cut), (cut, hello.len())]) {
        let initial = quic::Packet {
            version: quic::VERSION_1,
            number,
            frames: quic::crypto(hello, from, to),
            ..quic::Packet::default()
        };
        if from < to {
            let sealed = quic::datagram(&ids, &[initial], &[]).expect("keys of TLS 1.3");
            steps.push(datagram(ends, false, sealed));
        }
    }
    if random.percent(25) {
        steps.extend(steps.last().cloned());
    }
    for is_servers in [true, false] {
        steps.push(datagram(
            ends,
            is_servers,
            quic::handshake(&ids, is_servers),
        ));
    }
    for is_servers in [false, true, true, false] {
        steps.push(datagram(ends, is_servers, quic::short(&ids, is_servers)));
    }
    steps
}

/// Returns the packets of a connection, in order.
/// - host: name that the client shows; empty for none.
pub fn steps(random: &mut Random, ends: &Ends, speech: Speech, host: &str) -> Vec<Step> {
    let said = opening(random, speech, host);
    match speech {
        Speech::DnsOverUdp => {
            let mut answer = said.clone();
            answer[2] |= 0x80;
            return vec![datagram(ends, false, said), datagram(ends, true, answer)];
        }
        Speech::Quic => return datagrams(random, ends, &said),
        _ => {}
    }
    let next = [random.word() as u32, random.word() as u32];
    let mut tcp = Tcp {
        ends,
        next,
        steps: Vec::new(),
    };
    tcp.say(false, SYN, &[]);
    tcp.say(true, SYN | ACK, &[]);
    tcp.say(false, ACK, &[]);
    let cut = match random.percent(40) {
        true => 1 + random.below(said.len() - 1),
        false => said.len(),
    };
    for part in [&said[..cut], &said[cut..]] {
        if !part.is_empty() {
            tcp.say(false, PSH | ACK, part);
            if random.percent(25) {
                tcp.repeat();
            }
        }
    }
    tcp.say(true, ACK, &[]);
    tcp.say(true, PSH | ACK, &answer(speech));
    tcp.say(false, ACK, &[]);
    if speech == Speech::Http && random.percent(50) {
        tcp.say(false, PSH | ACK, &said);
    }
    tcp.say(true, PSH | ACK, &[0x17, 3, 3, 0, 2, 1, 2]);
    match random.percent(50) {
        true => tcp.say(false, RST, &[]),
        false => {
            tcp.say(false, FIN | ACK, &[]);
            tcp.say(true, FIN | ACK, &[]);
            tcp.say(false, ACK, &[]);
        }
    }
    tcp.steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_acknowledges_what_was_said() {
        let mut random = Random::new(1);
        let ends = Ends::of(&Packet::new(4, TCP), &mut random);
        let steps = steps(&mut random, &ends, Speech::Tls, "a.example");
        let sequence = |at: usize| steps[at].packet.sequence.unwrap();
        assert_eq!(sequence(1).1, sequence(0).0.wrapping_add(1));
        assert_eq!(sequence(2), (sequence(1).1, sequence(1).0.wrapping_add(1)));
        let last = steps.iter().rposition(|step| step.is_servers).unwrap();
        assert_eq!(steps[last].packet.source, ends.server);
    }

    #[test]
    fn ends_are_hosts() {
        let mut packet = Packet::new(6, UDP);
        (packet.source, packet.destination) = (0xff02 << 112 | 1, 0xfe80 << 112 | 1);
        let ends = Ends::of(&packet, &mut Random::new(1));
        assert_eq!((ends.client, ends.server), IPV6_DEFAULT);
    }
}
