// SPDX-License-Identifier: GPL-2.0-or-later
//! Borders of DNS messages in a server's TCP stream.
//!
//! Theory of operation: messages don't align with segments, and by its window a client influences where the server
//! splits them. So the start of a segment does not count as a border: the server's SYN-ACK shows the first border, and
//! each message the next one. A connection is stored as a hash, in a table of fixed size in which the oldest entry is
//! replaced. Answers on a connection without an entry add no addresses to sets.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash::{self, SiphashKey};
use crate::connection::types::{ConnectionInput, INTERFACE_UNKNOWN, KEY_WORDS};
use crate::connection::{direction, table};
use crate::packet::Packet;

/// Number of buckets in the table of DNS connections over TCP.
const BUCKETS: usize = 256;
const BUCKET_BORDERS: usize = 8;
/// Time for which an entry is valid after the client's SYN, the server's SYN-ACK, and each message of the server.
const WAIT_NS: u64 = 120_000_000_000;

/// Entry of the table `Borders`: a DNS connection over TCP, and the position in its server's stream at which the next
/// message begins.
#[derive(Clone, Copy, Debug, Default)]
struct Border {
    tag: u64,
    /// Expiry time; 0 means that the entry is unused.
    end_ns: u64,
    client_interface: u32,
    server_interface: u32,
    /// True if the server has answered the client's SYN, so that `next` is known.
    is_known: bool,
    /// Sequence number of the first byte of the server's next DNS message.
    next: u32,
}

/// Table of a worker's DNS connections over TCP.
#[derive(Debug)]
pub struct Borders {
    key: SiphashKey,
    buckets: Vec<[Border; BUCKET_BORDERS]>,
}

/// Makes an empty table.
pub fn make() -> Borders {
    Borders {
        key: siphash::draw(),
        buckets: vec![[Border::default(); BUCKET_BORDERS]; BUCKETS],
    }
}

/// Returns the hash of a packet's connection.
/// - is_servers: true if the packet comes from the server.
fn hash(borders: &Borders, packet: &Packet, is_servers: bool) -> u64 {
    let mut words = [0; KEY_WORDS + 1];
    let (key, is_low) = table::key(packet);
    let is_server_low = u64::from(is_low == is_servers);
    for (to, from) in words.iter_mut().zip(key.into_iter().chain([is_server_low])) {
        *to = from;
    }
    siphash::words(&borders.key, &words)
}

/// Returns the entries of the bucket that a hash belongs to.
fn bucket(borders: &mut Borders, tag: u64) -> &mut [Border] {
    let bucket = borders.buckets.get_mut(tag as usize % BUCKETS);
    bucket.map_or(&mut [], |bucket| &mut bucket[..])
}

/// Returns the table entry of the DNS connection to which a server's packet belongs. Returns None if there is no valid
/// entry, or if the packet's interfaces are not those of the connection.
fn find<'a>(
    borders: &'a mut Borders,
    packet: &Packet,
    input: &ConnectionInput,
) -> Option<&'a mut Border> {
    let tag = hash(borders, packet, true);
    bucket(borders, tag).iter_mut().find(|border| {
        let (client, server) = (border.client_interface, border.server_interface);
        border.tag == tag
            && border.end_ns > input.now_ns
            && direction::answers(client, server, input)
    })
}

/// Adds the connection that a client's SYN opens.
pub fn begin(borders: &mut Borders, packet: &Packet, input: &ConnectionInput) {
    let tag = hash(borders, packet, false);
    let all = bucket(borders, tag).iter_mut();
    let place = all.min_by_key(|border| match border.tag == tag {
        true => 0,
        false => border.end_ns.max(1),
    });
    if let Some(border) = place {
        *border = Border {
            tag,
            end_ns: input.now_ns + WAIT_NS,
            client_interface: input.source_interface,
            server_interface: input.sink_interface,
            is_known: false,
            next: 0,
        };
    }
}

/// Stores the sequence number at which the server's next DNS message begins, if the table has the packet's connection.
/// - packet: packet from the server.
pub fn set(borders: &mut Borders, packet: &Packet, input: &ConnectionInput, next: u32) {
    if let Some(border) = find(borders, packet, input) {
        if border.server_interface == INTERFACE_UNKNOWN {
            border.server_interface = input.source_interface;
        }
        border.end_ns = input.now_ns + WAIT_NS;
        border.is_known = true;
        border.next = next;
    }
}

/// Returns the sequence number at which the server's next message begins; None if unknown.
pub fn next(borders: &mut Borders, packet: &Packet, input: &ConnectionInput) -> Option<u32> {
    let border = find(borders, packet, input)?;
    border.is_known.then_some(border.next)
}
