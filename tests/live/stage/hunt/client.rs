// SPDX-License-Identifier: GPL-2.0-or-later
//! Random clients: segments in any order, some of which the server does not receive, ignores or refuses.

use twinwall_judge::random::Random;

use super::packet::PORT;
use crate::evasion::client::{tcp_segment, Segment, ACK, FIN, PSH, RST, SYN};
use crate::evasion::hello;
use crate::evasion::net::HOPS;
use crate::evasion::wire::{self, Version, TCP};

/// Names of equal length, so that each byte of a hello has a counterpart. The policy matches the first two.
pub const NAMES: [&str; 3] = [
    "www.amused.example",
    "www.denied.example",
    "www.others.example",
];
/// Distance by which a client sometimes raises the first sequence number for a new connection from its port.
const AGAIN: u32 = 0x0200_0000;

/// Returns a stream: a hello with the name NAMES[index], or text that shows no name if there is no such name.
pub fn stream(index: usize) -> Vec<u8> {
    let hello = hello::tls(NAMES.get(index).copied().unwrap_or(NAMES[0]), 0).bytes;
    match NAMES.get(index) {
        Some(_) => hello,
        None => b"SSH-2.0-nameless\r\n"
            .iter()
            .copied()
            .cycle()
            .take(hello.len())
            .collect(),
    }
}

pub struct Client {
    pub port: u16,
    /// The client's own stream, and a stream with other bytes.
    streams: [Vec<u8>; 2],
    /// Percentage of segments with data whose bytes are from the other stream (`streams[1]`).
    mixes: u32,
    /// Percentage of segments that the server does not receive, ignores or refuses.
    spoils: u32,
    /// Sequence number of the SYN.
    first: u32,
    before: u32,
    /// Number of the stream's bytes that the client has sent without a gap, from the start.
    end: usize,
}

impl Client {
    pub fn new(port: u16, random: &mut Random) -> Client {
        // A second hello, for servers that request one.
        let streams = [0, 1].map(|_| {
            let mut any = || stream(random.weighted(&[3, 3, 1, 1]));
            [any(), any()].concat()
        });
        let first = random.word() as u32;
        Client {
            port,
            streams,
            mixes: *random.pick(&[0, 0, 10, 30]),
            spoils: *random.pick(&[0, 15, 40]),
            first,
            before: first,
            end: 0,
        }
    }

    /// Returns a client that neither mixes its stream with other bytes nor spoils segments.
    /// - index: selects the stream, as in `stream`.
    pub fn plain(port: u16, index: usize) -> Client {
        Client {
            port,
            streams: [stream(index), stream(index)],
            mixes: 0,
            spoils: 0,
            first: u32::from(port) << 8,
            before: 0,
            end: 0,
        }
    }

    pub fn syn(&self) -> Segment {
        Segment {
            flags: SYN,
            options: vec![2, 4, 5, 0xb4],
            ..Segment::data(0, &[])
        }
    }

    pub fn whole(&self) -> Segment {
        Segment::data(1, &self.streams[0])
    }

    /// Returns a segment with bytes of the own stream, or in a `mixes` percentage of calls of the other stream.
    fn data(&mut self, random: &mut Random) -> Segment {
        let other = usize::from(random.percent(self.mixes));
        let bytes = &self.streams[other];
        let start = match random.below(10) {
            0..=5 => self.end.min(bytes.len() - 1),
            6 => 0,
            _ => random.below(bytes.len()),
        };
        let end = match random.below(3) {
            0 if start < bytes.len() / 2 => bytes.len() / 2,
            0 => bytes.len(),
            _ => start + 1 + random.below(bytes.len() - start),
        };
        if start <= self.end {
            self.end = self.end.max(end);
        }
        Segment::data(1 + start, &bytes[start..end])
    }

    /// Returns a segment without data, or an ACK with one zero byte; its offset is random, near the end of the sent
    /// bytes.
    fn signal(&mut self, random: &mut Random) -> Segment {
        let flags = *random.pick(&[
            ACK,
            ACK,
            ACK,
            RST,
            RST | ACK,
            FIN | ACK,
            SYN,
            SYN,
            SYN | ACK,
        ]);
        let near = self.end as i64 + 1;
        let offset = match random.below(6) {
            0..=2 => near,
            3 => near - 1,
            4 => near - 1 - random.below(3_000) as i64,
            _ => near + random.below(3_000) as i64,
        };
        let bytes = match flags == ACK && random.percent(30) {
            true => vec![0],
            false => Vec::new(),
        };
        Segment {
            offset,
            flags,
            ..Segment::data(0, &bytes)
        }
    }

    fn spoil(segment: &mut Segment, random: &mut Random) {
        match random.below(8) {
            0..=2 => segment.outside.ttl = HOPS - 1,
            3 => segment.wrong_checksum = true,
            4 => segment.ack_off = *random.pick(&[1, 10_000, 0x8000_0000, 0xffff_0000]),
            5 => segment.flags &= !ACK,
            6 => segment.options = [&[19, 18][..], &[0x5a; 16], &[1, 1]].concat(),
            _ => segment.flags |= FIN,
        }
    }

    /// Returns the client's segments of a round, possibly none.
    /// - is_listening: true if the server has no connection, so that the client may begin a connection.
    pub fn speak(&mut self, random: &mut Random, is_listening: bool) -> Vec<Segment> {
        if is_listening && random.percent(70) {
            let again = random.percent(50) && self.before != self.first;
            if again || random.percent(20) {
                self.before = self.first;
                self.first = self.first.wrapping_add(AGAIN);
            }
            self.end = 0;
            let mut syn = self.syn();
            if random.percent(10) {
                syn.bytes = self.streams[random.below(2)].clone();
            }
            return vec![syn];
        }
        let count = random.weighted(&[2, 8, 3]);
        let mut segments = Vec::new();
        for _ in 0..count {
            let mut segment = match random.percent(65) {
                true => self.data(random),
                false => self.signal(random),
            };
            if random.percent(self.spoils) {
                Client::spoil(&mut segment, random);
            }
            // An acknowledgement in the server's name.
            if random.percent(self.spoils / 8) {
                segment.outside.is_forged = true;
                segment.flags = ACK;
                segment.bytes.clear();
                segment.offset = 1 + random.below(self.streams[0].len() + 1) as i64;
            }
            segments.push(segment);
        }
        segments
    }

    /// Returns the IPv4 packet of a segment: from the client, or for a forged segment in the server's name.
    /// - ack: sequence number of the server's next byte.
    pub fn packet(&self, segment: &Segment, ack: u32) -> Vec<u8> {
        let seq = self.first.wrapping_add(segment.offset as u32);
        let ack = ack.wrapping_add(segment.ack_off);
        let tcp = match segment.outside.is_forged {
            true => tcp_segment(Version::V4, (PORT, self.port), ack, seq, segment),
            false => tcp_segment(Version::V4, (self.port, PORT), seq, ack, segment),
        };
        wire::packets(Version::V4, TCP, self.port, &segment.outside, &tcp).remove(0)
    }
}

/// Formats a segment for messages: flags, offset, length, and unusual properties.
pub fn shown(segment: &Segment) -> String {
    let names = [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, 'A')];
    let flags = names.iter().filter(|(flag, _)| segment.flags & flag != 0);
    let flags: String = flags.map(|(_, name)| name).collect();
    let mut text = format!("{flags} {}+{}", segment.offset, segment.bytes.len());
    if segment.outside.ttl != 64 {
        text += " ttl";
    }
    if segment.wrong_checksum {
        text += " checksum";
    }
    if segment.ack_off != 0 {
        text += &format!(" ack{:+}", segment.ack_off as i32);
    }
    if segment.outside.is_forged {
        text += " forged";
    }
    if segment.options.len() > 4 {
        text += " md5";
    }
    text
}
