// SPDX-License-Identifier: GPL-2.0-or-later
//! A TCP client that builds each of its packets (RFC 9293).

use std::mem;
use std::time::{Duration, Instant};

use anyhow::Context;
use testbed::frames::Link;
use testbed::wait::pause_for;

use super::multipath::{self, Keys};
use super::net::Net;
use super::tried::ANSWERED;
use super::wire::{self, Outside, Version, TCP};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;

/// TCP Fast Open without a cookie (RFC 7413, section 4.1.1), padded.
pub const FAST_OPEN: [u8; 4] = [34, 2, 1, 1];
/// Distance between the first sequence numbers of two connections of a client.
const NEXT_FIRST: u32 = 1_000_000;
/// Offset outside the server's window.
const FAR: i64 = 10_000_000;
/// Time limit for the server's SYN-ACK.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Maximum data of a segment in bytes; it leaves room for TCP options.
const SEGMENT_BYTES: usize = 1_400;
/// Time to wait for an answer of the server; a try whose packet is dropped takes as long.
pub const QUIET: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub enum Step {
    Segment(Segment),
    Pause(Duration),
    /// Waits for the server's data, and acknowledges it.
    Hear,
    /// Opens another connection with the same ports and the same first sequence number, with segments between its SYN
    /// and the server's answer.
    OpenAgain(Vec<Segment>),
    /// Opens another connection with another first sequence number. Before the server's answer arrives, sends this
    /// second SYN, which does not reach the server. The server's answer to segments outside its window then shows its
    /// sequence number.
    OpenBehind(Segment),
    /// Opens a second connection with the same ports, without an acknowledgement of its SYN-ACK. The number is added to
    /// the present connection's first sequence number. Later steps are those of the second connection.
    OpenBeside(i64),
    /// Returns to the connection before `OpenBeside`: later steps are those of that connection.
    Return,
    /// Waits for another SYN-ACK of the server.
    AnswerAgain,
}

/// Segment of a client, described by its differences from a plain data segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Offset of the segment's bytes in the client's stream; the first byte has offset 0.
    pub offset: i64,
    pub bytes: Vec<u8>,
    pub flags: u8,
    pub outside: Outside,
    /// Number to add to the correct acknowledgement number.
    pub ack_off: u32,
    pub wrong_checksum: bool,
    /// Urgent byte, counted from 1 in the segment; 0 = none. The server's program does not receive this byte.
    pub urgent: u16,
    /// TCP options; their length is a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// Two bytes that the kernel replaces by a checksum after the firewall.
    pub unsummed: Option<Unsummed>,
    /// Offset in the client's stream to which Multipath TCP maps the bytes; None = not mapped.
    pub mapped: Option<i64>,
}

/// Checksum that the kernel stores at `place` after the firewall: until then the two bytes there are `seen`. It is the
/// checksum of all bytes from `start` on, and equals the segment's own bytes at `place`. Both are offsets in `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Unsummed {
    pub start: usize,
    pub place: usize,
    pub seen: [u8; 2],
}

impl Segment {
    /// Returns a segment with data.
    /// - offset: in the client's stream.
    pub fn data(offset: usize, bytes: &[u8]) -> Segment {
        Segment {
            offset: offset as i64,
            bytes: bytes.to_vec(),
            flags: PSH | ACK,
            outside: Outside::default(),
            ack_off: 0,
            wrong_checksum: false,
            urgent: 0,
            options: Vec::new(),
            unsummed: None,
            mapped: None,
        }
    }

    /// Returns true if the segment can be sent as one packet that the kernel splits into parts of `bytes` bytes (GSO):
    /// it is no SYN, has more than `bytes` bytes of data, plain IP headers apart from the TTL, and a plain checksum.
    fn is_splittable(&self, bytes: u16) -> bool {
        let outside = Outside {
            ttl: self.outside.ttl,
            ..Outside::default()
        };
        let is_data = self.flags & SYN == 0 && self.bytes.len() > usize::from(bytes);
        is_data && self.outside == outside && !self.wrong_checksum && self.unsummed.is_none()
    }

    pub fn step(self) -> Step {
        Step::Segment(self)
    }
}

/// Packets that a client sends, in order.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Segments before the true SYN, such as other SYNs. The offset of a SYN is relative to the true first sequence
    /// number.
    pub before: Vec<Segment>,
    /// Data that the SYN carries.
    pub on_syn: Vec<u8>,
    /// Segments between the true SYN and the server's answer.
    pub after_syn: Vec<Segment>,
    /// True if the client does not acknowledge the server's SYN.
    pub is_silent: bool,
    /// True if the client requests Multipath TCP.
    pub is_multipath: bool,
    pub steps: Vec<Step>,
    /// First sequence number; 0 = derived from the port.
    pub first: u32,
    /// True if the way succeeds only if packets arrive in one of several possible orders.
    pub is_race: bool,
}

impl Script {
    /// Returns true if a firewall may drop the SYN: it carries data or requests Multipath TCP.
    pub fn is_shown_by_syn(&self) -> bool {
        self.is_multipath || !self.on_syn.is_empty()
    }
}

pub fn tcp_segment(
    version: Version,
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    segment: &Segment,
) -> Vec<u8> {
    let words = 5 + segment.options.len() / 4;
    let ack = if segment.flags & ACK != 0 { ack } else { 0 };
    let mut tcp = [
        &ports.0.to_be_bytes()[..],
        &ports.1.to_be_bytes(),
        &seq.to_be_bytes(),
        &ack.to_be_bytes(),
        &[(words as u8) << 4, segment.flags, 0xfa, 0xf0, 0, 0],
        &segment.urgent.to_be_bytes(),
        &segment.options,
        &segment.bytes,
    ]
    .concat();
    let sum = wire::checksum_of(version, TCP, &tcp);
    tcp[16..18].copy_from_slice(&sum);
    if segment.wrong_checksum {
        tcp[16] ^= 0x55;
    }
    tcp
}

/// Returns the TCP header and payload of a packet, if it is from the server to the client's port.
fn of_server(packet: &[u8], version: Version, ports: (u16, u16)) -> Option<(&[u8], &[u8])> {
    let tcp = wire::carried(packet, version, TCP, ports)?;
    let offset = usize::from(tcp.get(12)? >> 4) * 4;
    Some((tcp.get(..offset)?, tcp.get(offset..)?))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Returns true if a SYN-ACK acknowledges this script's SYN, with all, some or none of its data.
/// - first: sequence number of the SYN.
fn is_own(tcp: &[u8], first: u32, script: &Script) -> bool {
    u32_at(tcp, 8).wrapping_sub(first) as usize <= 1 + script.on_syn.len()
}

/// Returns an acknowledgement without data.
/// - offset: its position in the client's stream.
fn acknowledgement(offset: i64) -> Segment {
    Segment {
        flags: ACK,
        offset,
        ..Segment::data(0, &[])
    }
}

/// Connection that the server has answered.
struct Opened {
    /// Sequence number of the server's first byte.
    begun: u32,
    /// Packets received during the handshake.
    packets: Vec<Vec<u8>>,
    /// Keys of Multipath TCP; None unless both ends use it.
    keys: Option<Keys>,
}

impl Opened {
    /// Returns a copy of a segment. If the segment has a mapping and both ends use Multipath TCP, the mapping option
    /// (DSS) replaces its options.
    fn mapped(&self, segment: &Segment) -> Segment {
        let mut segment = segment.clone();
        if let (Some(keys), Some(place)) = (&self.keys, segment.mapped) {
            segment.options = keys.mapping(place, segment.offset, segment.bytes.len());
        }
        segment
    }
}

/// Client with its own port.
pub struct Client<'a> {
    pub net: &'a Net,
    pub link: &'a Link,
    pub version: Version,
    /// Ports of the client and of the server.
    pub ports: (u16, u16),
    /// Time limit for the server's data after the last step of a script.
    pub patience: Duration,
}

impl Client<'_> {
    /// Sends a segment: as one packet for the kernel to split (GSO), if the net has gso_bytes, or else in segments of
    /// SEGMENT_BYTES. A SYN is not split; its excess data is omitted.
    fn send(&self, first: u32, ack: u32, segment: &Segment) -> anyhow::Result<()> {
        match self.net.gso_bytes {
            Some(bytes) if segment.is_splittable(bytes) => {
                self.send_whole(first, ack, segment, bytes)
            }
            _ => self.send_parts(first, ack, segment),
        }
    }

    /// Sends a segment as one packet that the kernel may split (GSO).
    fn send_whole(
        &self,
        first: u32,
        ack: u32,
        segment: &Segment,
        bytes: u16,
    ) -> anyhow::Result<()> {
        let seq = first.wrapping_add(1).wrapping_add(segment.offset as u32);
        let ack = ack.wrapping_add(segment.ack_off);
        let mut tcp = tcp_segment(self.version, self.ports, seq, ack, segment);
        let sum = wire::pseudo_sum(self.version, TCP, tcp.len());
        tcp[16..18].copy_from_slice(&sum);
        let packets = wire::packets(self.version, TCP, self.ports.0, &segment.outside, &tcp);
        let packet = packets.first().context("no packet")?;
        let start = packet.len() - tcp.len();
        let header = packet.len() - segment.bytes.len();
        self.link
            .send_segments(self.net.gateway, packet, (start, header), bytes)
    }

    fn send_parts(&self, first: u32, ack: u32, segment: &Segment) -> anyhow::Result<()> {
        let has_no_room = segment.flags & SYN != 0 && segment.bytes.len() > SEGMENT_BYTES;
        let count = segment.bytes.len().div_ceil(SEGMENT_BYTES);
        let count = if has_no_room { 1 } else { count.max(1) };
        for index in 0..count {
            let from = index * SEGMENT_BYTES;
            let end = segment.bytes.len().min(from + SEGMENT_BYTES);
            let part = Segment {
                offset: segment.offset + from as i64,
                bytes: segment.bytes[from..end].to_vec(),
                ..segment.clone()
            };
            // The SYN itself has the first sequence number, so the data begins one later.
            let base = if part.flags & SYN != 0 { 0 } else { 1 };
            let seq = first.wrapping_add(base).wrapping_add(part.offset as u32);
            let ack = ack.wrapping_add(part.ack_off);
            let tcp = match part.outside.is_forged {
                // Forges the server's acknowledgement of all bytes before this offset.
                true => {
                    let ports = (self.ports.1, self.ports.0);
                    tcp_segment(self.version, ports, ack, seq, &part)
                }
                false => tcp_segment(self.version, self.ports, seq, ack, &part),
            };
            for packet in wire::packets(self.version, TCP, self.ports.0, &part.outside, &tcp) {
                self.send_packet(packet, &part)?;
            }
        }
        Ok(())
    }

    fn send_packet(&self, mut packet: Vec<u8>, part: &Segment) -> anyhow::Result<()> {
        let Some(unsummed) = part.unsummed else {
            return self.link.send(self.net.gateway, &packet);
        };
        let header = packet.len() - part.bytes.len();
        let [start, place] = [unsummed.start, unsummed.place].map(|place| header + place);
        packet[place..place + 2].copy_from_slice(&unsummed.seen);
        let gateway = self.net.gateway;
        self.link.send_unsummed(gateway, &packet, start, place)
    }

    /// Executes a script. Returns the server's first bytes after those that a step has heard; empty without an answer.
    /// None if there was no TCP handshake, or if these bytes may be an answer that a step has missed.
    pub fn run(&self, script: &Script) -> anyhow::Result<Option<Vec<u8>>> {
        let mut first = match script.first {
            0 => 0x1000_0000 + u32::from(self.ports.0) * 0x1001,
            first => first,
        };
        let Some(mut opened) = self.open(first, script, None)? else {
            return Ok(None);
        };
        let (mut ack, mut end) = (opened.begun, 0);
        let mut other = (first, ack);
        // Acknowledgement number of a step that has heard nothing.
        let mut missed = None;
        for step in &script.steps {
            match step {
                Step::Segment(segment) => {
                    self.send(first, ack, &opened.mapped(segment))?;
                    end = end.max(segment.offset + segment.bytes.len() as i64);
                }
                Step::Pause(pause) => pause_for(*pause),
                Step::Hear => {
                    // An answer that came later would count as that to the whole opening.
                    let heard = self.answer(ack, mem::take(&mut opened.packets), ANSWERED)?;
                    missed = heard.is_empty().then_some(ack);
                    ack = ack.wrapping_add(heard.len() as u32);
                    self.send(first, ack, &acknowledgement(end))?;
                }
                Step::OpenAgain(after_syn) => {
                    let plain = Script {
                        after_syn: after_syn.clone(),
                        ..Script::default()
                    };
                    let Some(again) = self.open(first, &plain, Some(opened.begun))? else {
                        return Ok(Some(Vec::new()));
                    };
                    (opened, end) = (again, 0);
                    ack = opened.begun;
                }
                Step::OpenBehind(syn) => {
                    first = first.wrapping_add(NEXT_FIRST);
                    let Some(begun) = self.open_behind(first, syn)? else {
                        return Ok(Some(Vec::new()));
                    };
                    (ack, end) = (begun, 0);
                    opened.packets.clear();
                }
                Step::OpenBeside(distance) => {
                    other = (first, ack);
                    first = first.wrapping_add(*distance as u32);
                    let silent = Script {
                        is_silent: true,
                        ..Script::default()
                    };
                    let Some(beside) = self.open(first, &silent, Some(opened.begun))? else {
                        return Ok(Some(Vec::new()));
                    };
                    (ack, end) = (beside.begun, 0);
                }
                Step::Return => {
                    (first, ack) = other;
                    end = 0;
                }
                Step::AnswerAgain => self.wait_for_answer(first)?,
            }
        }
        let answer = self.answer(ack, opened.packets, self.patience)?;
        Ok((missed != Some(ack) || answer.is_empty()).then_some(answer))
    }
}

impl Client<'_> {
    /// Performs the TCP handshake. Returns None if the server does not answer.
    /// - before: sequence number of the server's first byte in the previous connection, whose SYN-ACKs are ignored;
    ///   None: there is no previous connection.
    fn open(
        &self,
        first: u32,
        script: &Script,
        before: Option<u32>,
    ) -> anyhow::Result<Option<Opened>> {
        // Option: maximum segment size 1460.
        let mut options = vec![2, 4, 5, 0xb4];
        if !script.on_syn.is_empty() {
            options.extend(FAST_OPEN);
        }
        if script.is_multipath {
            options.extend(multipath::ASK);
        }
        let syn = Segment {
            flags: SYN,
            options,
            ..Segment::data(0, &script.on_syn)
        };
        for segment in script.before.iter().chain([&syn]).chain(&script.after_syn) {
            self.send(first, 0, segment)?;
        }
        let begun = |tcp: &[u8]| u32_at(tcp, 4).wrapping_add(1);
        let is_answer = |packet: &[u8]| {
            of_server(packet, self.version, self.ports).is_some_and(|(tcp, _)| {
                tcp[13] & (SYN | ACK) == SYN | ACK
                    && is_own(tcp, first, script)
                    && Some(begun(tcp)) != before
            })
        };
        let ours = |packet: &[u8]| of_server(packet, self.version, self.ports).is_some();
        let mut packets = Vec::new();
        let deadline = Instant::now() + HANDSHAKE;
        while !packets.iter().any(|packet: &Vec<u8>| is_answer(packet)) {
            if Instant::now() > deadline {
                return Ok(None);
            }
            let come = self.link.receive(ours, 0, QUIET)?;
            if come.is_empty() {
                // Retransmits the SYN like TCP: if the first two packets of a connection wait in a queue at once,
                // conntrack drops the second.
                self.send(first, 0, &syn)?;
            }
            packets.extend(come);
        }
        let (tcp, _) = packets
            .iter()
            .find(|packet| is_answer(packet))
            .and_then(|packet| of_server(packet, self.version, self.ports))
            .context("it has just been found")?;
        let (begun, keys) = (begun(tcp), multipath::keys(&tcp[20..]));
        // Number of bytes of the SYN's data that the server has accepted.
        let taken = u32_at(tcp, 8).wrapping_sub(first.wrapping_add(1));
        let acknowledge = Segment {
            options: keys.as_ref().map(Keys::option).unwrap_or_default(),
            ..acknowledgement(taken.into())
        };
        if !script.is_silent {
            self.send(first, begun, &acknowledge)?;
        }
        Ok(Some(Opened {
            begun,
            packets,
            keys,
        }))
    }

    /// Opens a connection as `Step::OpenBehind` describes. Returns the sequence number of the server's first byte; None
    /// if the server does not report it.
    /// - behind: the SYN that does not reach the server.
    fn open_behind(&self, first: u32, behind: &Segment) -> anyhow::Result<Option<u32>> {
        let syn = Segment {
            flags: SYN,
            options: vec![2, 4, 5, 0xb4],
            ..Segment::data(0, &[])
        };
        // Without an acknowledgement: a server answers a wrong one by a RST.
        let far = Segment {
            flags: PSH,
            offset: FAR,
            ..Segment::data(0, &[])
        };
        self.send(first, 0, &syn)?;
        self.send(first, 0, behind)?;
        let is_answer = |packet: &[u8]| {
            of_server(packet, self.version, self.ports)
                .is_some_and(|(tcp, _)| u32_at(tcp, 8) == first.wrapping_add(1))
        };
        let deadline = Instant::now() + HANDSHAKE;
        while Instant::now() < deadline {
            self.send(first, 0, &far)?;
            let come = self.link.receive(is_answer, 0, QUIET)?;
            let answer = come
                .first()
                .and_then(|packet| of_server(packet, self.version, self.ports));
            if let Some((tcp, _)) = answer {
                let is_syn = u32::from(tcp[13] & SYN != 0);
                return Ok(Some(u32_at(tcp, 4).wrapping_add(is_syn)));
            }
        }
        Ok(None)
    }

    /// Waits for a SYN-ACK to the SYN with the sequence number `first`, for HANDSHAKE at most. Its absence is no error.
    fn wait_for_answer(&self, first: u32) -> anyhow::Result<()> {
        let is_answer = |packet: &[u8]| {
            of_server(packet, self.version, self.ports).is_some_and(|(tcp, _)| {
                tcp[13] & SYN != 0 && u32_at(tcp, 8) == first.wrapping_add(1)
            })
        };
        let deadline = Instant::now() + HANDSHAKE;
        while Instant::now() < deadline && self.link.receive(is_answer, 0, QUIET)?.is_empty() {}
        Ok(())
    }

    /// Returns the data of the server's segment with the sequence number `ack`; empty if none arrives in time.
    /// - packets: packets that were already received.
    fn answer(
        &self,
        ack: u32,
        packets: Vec<Vec<u8>>,
        patience: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let is_first = |packet: &[u8]| {
            of_server(packet, self.version, self.ports)
                .is_some_and(|(tcp, data)| !data.is_empty() && u32_at(tcp, 4) == ack)
        };
        let mut packets = packets.into_iter();
        let answer = match packets.find(|packet| is_first(packet)) {
            Some(packet) => Some(packet),
            None => {
                let deadline = Instant::now() + patience;
                let mut answers = Vec::new();
                while answers.is_empty() && Instant::now() < deadline {
                    answers = self.link.receive(is_first, 0, QUIET)?;
                }
                answers.into_iter().next()
            }
        };
        let data = answer
            .as_ref()
            .and_then(|packet| of_server(packet, self.version, self.ports));
        Ok(data.map(|(_, data)| data.to_vec()).unwrap_or_default())
    }
}
