// SPDX-License-Identifier: GPL-2.0-or-later
//! Segments between the two ends of the hunt, and the markers behind them.

use crate::evasion::client::{tcp_segment, Segment};
use crate::evasion::net::{CLIENT, SERVER};
use crate::evasion::wire::{self, Outside, Version, TCP, UDP};

/// TCP port of the model server, on which no real program listens.
pub const PORT: u16 = 7443;
/// UDP ports of the markers: to the server, and to the client.
const MARKERS: [u16; 2] = [7001, 7002];

const IPV4_BYTES: usize = 20;
const MD5: u8 = 19;

/// TCP segment with the fields that the model server uses.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub data: Vec<u8>,
    pub has_md5: bool,
}

/// End to which a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Client,
    Server,
}

impl Tcp {
    pub fn new(seq: u32, ack: u32, flags: u8) -> Tcp {
        Tcp {
            seq,
            ack,
            flags,
            data: Vec::new(),
            has_md5: false,
        }
    }

    /// Returns the IPv4 packet that carries the segment from the server to a port of the client.
    pub fn packet(&self, port: u16) -> Vec<u8> {
        let segment = Segment {
            flags: self.flags,
            ..Segment::data(0, &self.data)
        };
        let tcp = tcp_segment(Version::V4, (PORT, port), self.seq, self.ack, &segment);
        of_server(TCP, &tcp)
    }
}

fn of_server(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let outside = Outside {
        is_forged: true,
        ..Outside::default()
    };
    wire::packets(Version::V4, protocol, 0, &outside, payload).remove(0)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the payload of an IPv4 packet from the client to the server; None for another packet or protocol.
fn of_client(packet: &[u8], protocol: u8) -> Option<&[u8]> {
    let end = usize::from(word(packet, 2)?);
    let is_ours = packet.first() == Some(&0x45)
        && packet.get(9) == Some(&protocol)
        && packet.get(12..16) == Some(&CLIENT)
        && packet.get(16..20) == Some(&SERVER);
    packet.get(IPV4_BYTES..end).filter(|_| is_ours)
}

/// Returns the client's port and its segment from a packet that arrived at the server. None if it is no TCP packet from
/// the client to PORT, or has a wrong checksum.
pub fn segment_of(packet: &[u8]) -> Option<(u16, Tcp)> {
    let tcp = of_client(packet, TCP)?;
    let is_correct = wire::checksum_of(Version::V4, TCP, tcp) == [0, 0];
    let start = usize::from(tcp.get(12)? >> 4) * 4;
    if !is_correct || word(tcp, 2)? != PORT {
        return None;
    }
    let number = |at: usize| Some(u32::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
    let segment = Tcp {
        seq: number(4)?,
        ack: number(8)?,
        flags: *tcp.get(13)?,
        data: tcp.get(start..)?.to_vec(),
        has_md5: tcp.get(20..start)?.first() == Some(&MD5),
    };
    Some((word(tcp, 0)?, segment))
}

/// Returns a datagram that follows the packets of a round through the same queue.
pub fn marker(to: To, number: u32) -> Vec<u8> {
    let [there, back] = MARKERS;
    let data = number.to_be_bytes();
    match to {
        To::Server => {
            let udp = wire::datagram(Version::V4, (there, there), &data);
            wire::packets(Version::V4, UDP, 0, &Outside::default(), &udp).remove(0)
        }
        To::Client => of_server(UDP, &wire::datagram(Version::V4, (back, back), &data)),
    }
}

/// Returns true if a packet is the marker with a number in this direction.
pub fn is_marker(packet: &[u8], to: To, number: u32) -> bool {
    let [there, back] = MARKERS;
    let data = number.to_be_bytes();
    let udp = match to {
        To::Server => of_client(packet, UDP),
        To::Client => wire::carried(packet, Version::V4, UDP, (back, back)),
    };
    let port = if to == To::Server { there } else { back };
    udp.is_some_and(|udp| word(udp, 2) == Some(port) && udp.get(8..) == Some(&data[..]))
}
