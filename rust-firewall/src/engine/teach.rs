// SPDX-License-Identifier: GPL-2.0-or-later
//! Learning of addresses from accepted DNS packets.
//!
//! Theory of operation: a query for a name that a set learns is stored. The answer to it, sent from the query's
//! destination to its source, adds addresses to the set. A query counts only if its sender opened the connection. Both
//! packets must be accepted first, so only a server that the policy lets a client query can add addresses. A message is
//! read if one packet contains all of it; over TCP, an answer must also begin where the server's previous message
//! ended.
#![deny(clippy::indexing_slicing)]

use crate::base::counts::{self, Count};
use crate::connection::asked::{self, Asked};
use crate::connection::{borders, checksum, openers};
use crate::connection::{ConnectionChecksum, ConnectionInput};
use crate::engine::compiled::{CompileKernelSet, Compiled};
use crate::engine::hostnames;
use crate::engine::learned;
use crate::engine::lookup;
use crate::names::answer::{self, Answer};
use crate::names::cursor;
use crate::packet::{Packet, TCP_HEADER_BYTES, UDP_HEADER_BYTES};

/// Port of DNS servers.
const DNS_PORT: u16 = 53;
const TCP: u8 = libc::IPPROTO_TCP as u8;
/// Flags of TCP (RFC 9293, section 3.1).
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Length of the length field before a DNS message over TCP.
const LENGTH_BYTES: u32 = 2;
/// Offsets of the header's length in TCP, and of the datagram's length in UDP.
const TCP_LENGTH: usize = 12;
const UDP_LENGTH: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;
/// Minimum lifetime of an address in seconds: as long as clients cache an answer whatever its lifetime is (libcurl,
/// browsers), and resend a SYN.
const TTL_MIN: u32 = 60;
/// Maximum lifetime of an address in seconds: a day.
pub const TTL_MAX: u32 = 86_400;

/// Result of reading a DNS answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeachResult {
    /// The addresses of the answer were added to sets.
    Learned,
    /// The answer has no address.
    Empty,
    /// No set learns from the answer, because of its name or type.
    Other,
    /// No stored query matches the answer.
    Unasked,
    /// The answer is malformed, incomplete in its packet, at an unknown place in its packet, or has a wrong checksum.
    Unreadable,
}

pub const RESULT_COUNT: usize = TeachResult::Unreadable as usize + 1;

/// Numbers of DNS answers, by `TeachResult`.
pub type TeachResults = [u64; RESULT_COUNT];

/// Function that is called for each set that learns from an answer: with the set, the addresses, and the time until
/// which the set must have them (in nanoseconds, by the clock of `ConnectionInput::now_ns`).
pub type TeachListener<'a> = &'a mut dyn FnMut(&CompileKernelSet, &[u128], u64);

/// Output for a packet: the numbers of its DNS answers by result, and the function that is called with learned
/// addresses.
#[derive(Default)]
pub struct TeachOutput<'a> {
    /// Numbers of DNS answers by result; the packet's answers are added.
    pub results: TeachResults,
    pub listener: Option<TeachListener<'a>>,
}

fn count(output: &mut TeachOutput, result: TeachResult) {
    if let Some(count) = output.results.get_mut(result as usize) {
        *count += 1;
    }
}

/// Returns the payload of a packet with ports. None if its length is invalid, if not all of it was captured, or if a
/// checksum that the kernel has not verified is wrong.
fn data_of<'a>(packet: &Packet<'a>, how: &ConnectionInput) -> Option<&'a [u8]> {
    let start = packet.l4_offset as usize;
    let available = packet.end.saturating_sub(packet.l4_offset);
    let all = packet.bytes.get(start..start + available as usize)?;
    let (header_bytes, bytes) = if packet.protocol == TCP {
        let length = all.get(TCP_LENGTH)?;
        (u32::from(length >> 4) * 4, available)
    } else {
        let mut left = cursor::begin(all.get(UDP_LENGTH..)?);
        (UDP_HEADER_BYTES, cursor::number(&mut left, 2))
    };
    let is_unsure = how.checksum == ConnectionChecksum::Unverified;
    let is_odd = bytes > available || packet.protocol == TCP && header_bytes < TCP_HEADER_BYTES;
    if is_odd || is_unsure && !checksum::is_right(packet, bytes) {
        return None;
    }
    all.get(header_bytes as usize..bytes as usize)
}

/// Returns the bits of the sets that learn from a message, by its name and type.
fn sets_of(compiled: &Compiled, message: &Answer) -> u32 {
    let host = message.host.bytes.get(..message.host.length.into());
    let host = host.unwrap_or_default();
    if host.is_empty() || !answer::asks_address(message) {
        return 0;
    }
    let number = hostnames::find(&compiled.hosts, host);
    let is_ipv6 = message.dns_type == answer::TYPE_AAAA;
    let mut sets = 0;
    for (place, learning) in compiled.learning.iter().enumerate() {
        let is_its = learning.kernel.is_ipv6 == is_ipv6 && number > 0;
        if is_its && lookup::find(&learning.names, number).is_some() {
            sets |= 1 << place;
        }
    }
    sets
}

/// Adds the addresses of a DNS answer to sets, and calls the listener for each of these sets.
/// - sets: bits of the sets, from sets_of.
fn learn(compiled: &Compiled, sets: u32, answer: &Answer, now_ns: u64, output: &mut TeachOutput) {
    let Some(learned) = &compiled.learned else {
        return;
    };
    let seconds = answer.ttl.clamp(TTL_MIN, TTL_MAX);
    let end_ns = now_ns + u64::from(seconds) * SECOND_NS;
    let addresses = answer
        .addresses
        .get(..answer.count as usize)
        .unwrap_or_default();
    for (place, learning) in compiled.learning.iter().enumerate() {
        if sets >> place & 1 == 0 {
            continue;
        }
        for address in addresses {
            if learned::add(learned, learning.identity, *address, end_ns, now_ns) {
                counts::add(Count::LearnedEvicted, 1);
            }
        }
        if let Some(listener) = &mut output.listener {
            listener(&learning.kernel, addresses, end_ns);
        }
    }
}

/// Returns true if the client that sent a DNS query opened the connection of the query. Always true if the kernel has
/// checked it (is_directed). Always true for TCP, because answers are read only on TCP connections that their clients
/// opened (borders).
fn is_clients(asked: &Asked, packet: &Packet, how: &ConnectionInput) -> bool {
    let is_known = packet.protocol == TCP || how.is_directed;
    is_known || openers::is_clients(&asked.openers, packet, how)
}

/// Reads a DNS message: stores a query for a name that a set learns, or adds the addresses of an answer to sets, and
/// counts the result of the answer.
fn learn_message(
    asked: &mut Asked,
    compiled: &Compiled,
    packet: &Packet,
    message: &[u8],
    how: &ConnectionInput,
    output: &mut TeachOutput,
) {
    let mut read = Answer::default();
    let offset = answer::question(message, &mut read);
    if !read.is_answer {
        let is_query = packet.destination_port == DNS_PORT && offset.is_some();
        if is_query && sets_of(compiled, &read) != 0 && is_clients(asked, packet, how) {
            asked::note(asked, packet, &read, how);
        }
        return;
    }
    if packet.source_port != DNS_PORT {
        return;
    }
    let Some(offset) = offset else {
        count(output, TeachResult::Unreadable);
        return;
    };
    let sets = sets_of(compiled, &read);
    if sets == 0 {
        count(output, TeachResult::Other);
    } else if !asked::remove(asked, packet, &read, how) {
        count(output, TeachResult::Unasked);
    } else if !answer::parse(message, offset, &mut read) {
        count(output, TeachResult::Unreadable);
    } else {
        learn(compiled, sets, &read, how.now_ns, output);
        let result = match read.count {
            0 => TeachResult::Empty,
            _ => TeachResult::Learned,
        };
        count(output, result);
    }
}

/// Reads the messages of a TCP segment, each preceded by its length. Returns true if the segment contains the last
/// message completely.
fn learn_stream(
    asked: &mut Asked,
    compiled: &Compiled,
    packet: &Packet,
    data: &[u8],
    how: &ConnectionInput,
    output: &mut TeachOutput,
) -> bool {
    let mut left = cursor::begin(data);
    while !left.bytes.is_empty() {
        let message = cursor::vector(&mut left, LENGTH_BYTES);
        if message.cut {
            return false;
        }
        learn_message(asked, compiled, packet, message.bytes, how, output);
    }
    true
}

/// Reads the DNS messages of a server's TCP segment, from the stored sequence number at which the next message begins.
/// Returns false if the segment has data and the number is unknown or before the segment, or if a message does not end
/// in the segment.
fn learn_answers(
    asked: &mut Asked,
    compiled: &Compiled,
    packet: &Packet,
    sequence: u32,
    data: &[u8],
    how: &ConnectionInput,
    output: &mut TeachOutput,
) -> bool {
    let Some(mut next) = borders::next(&mut asked.borders, packet, how) else {
        return data.is_empty();
    };
    let distance = next.wrapping_sub(sequence) as i32;
    let place = usize::try_from(distance).ok();
    let Some(data) = place.and_then(|place| data.get(place..)) else {
        return distance > 0 || data.is_empty();
    };
    let mut left = data;
    while let Some(length) = left.first_chunk() {
        let length = LENGTH_BYTES + u32::from(u16::from_be_bytes(*length));
        next = next.wrapping_add(length);
        left = left.get(length as usize..).unwrap_or_default();
        borders::set(&mut asked.borders, packet, how, next);
    }
    learn_stream(asked, compiled, packet, data, how, output)
}

/// Reads a TCP segment. Returns false if the segment or a message in it is unreadable.
fn learn_segment(
    asked: &mut Asked,
    compiled: &Compiled,
    packet: &Packet,
    data: &[u8],
    how: &ConnectionInput,
    output: &mut TeachOutput,
) -> bool {
    let header = packet.bytes.get(packet.l4_offset as usize..);
    let Some(&[_, _, _, _, s0, s1, s2, s3, _, _, _, _, _, flags]) =
        header.and_then(|header| header.first_chunk())
    else {
        return false;
    };
    let sequence = u32::from_be_bytes([s0, s1, s2, s3]);
    let is_servers = packet.source_port == DNS_PORT;
    match flags & (SYN | ACK) {
        SYN => borders::begin(&mut asked.borders, packet, how),
        0 | ACK if is_servers => {
            return learn_answers(asked, compiled, packet, sequence, data, how, output);
        }
        0 | ACK => return learn_stream(asked, compiled, packet, data, how, output),
        _ => borders::set(&mut asked.borders, packet, how, sequence.wrapping_add(1)),
    }
    data.is_empty()
}

/// Reads an accepted packet: stores a query for a name that a set learns, or adds the addresses of an answer to sets.
pub fn packet(
    asked: &mut Asked,
    compiled: &Compiled,
    packet: &Packet,
    how: &ConnectionInput,
    output: &mut TeachOutput,
) {
    let is_servers = packet.source_port == DNS_PORT;
    if !packet.has_ports || !is_servers && packet.destination_port != DNS_PORT {
        return;
    }
    let is_tcp = packet.protocol == TCP;
    if !is_tcp && !how.is_directed {
        openers::note(&mut asked.openers, packet, how);
    }
    let is_joined = how.segmented && !is_tcp;
    let data = data_of(packet, how).filter(|_| !packet.fragment && !is_joined);
    let is_read = match data {
        None => false,
        Some(data) if is_tcp => learn_segment(asked, compiled, packet, data, how, output),
        Some(data) => {
            learn_message(asked, compiled, packet, data, how, output);
            true
        }
    };
    if !is_read && is_servers {
        count(output, TeachResult::Unreadable);
    }
}
