// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the next message of DNS over TCP begins in what a server sends.
//!
//! Theory of operation: messages keep to no border of segments, and a client chooses where its server cuts them, by its
//! window. So a border is known from the server's SYN-ACK on, and goes on from message to message; a segment's start is none.
//! As of questions a hash is kept, in a table of a fixed size where the oldest makes room. A connection that has none
//! teaches nothing.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash::{self, SiphashKey};
use crate::connection::types::{ConnectionInput, INTERFACE_UNKNOWN, KEY_WORDS};
use crate::connection::{direction, table};
use crate::packet::Packet;

/// Connections, in buckets.
const BUCKETS: usize = 256;
const BUCKET_BORDERS: usize = 8;
/// How long one is kept without a message.
const WAIT_NS: u64 = 120_000_000_000;

/// State of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Border {
    tag: u64,
    /// When it is over; 0 = there is none.
    end_ns: u64,
    client_interface: u32,
    server_interface: u32,
    /// The server has answered the client's SYN: next is known.
    is_known: bool,
    /// The sequence number of the message's first byte.
    next: u32,
}

/// The connections of a worker.
#[derive(Debug)]
pub struct Borders {
    key: SiphashKey,
    buckets: Vec<[Border; BUCKET_BORDERS]>,
}

/// Makes room for connections.
pub fn make() -> Borders {
    Borders {
        key: siphash::draw(),
        buckets: vec![[Border::default(); BUCKET_BORDERS]; BUCKETS],
    }
}

/// The hash of a packet's connection, which has one server: its sender, or its receiver.
fn hash(borders: &Borders, packet: &Packet, is_servers: bool) -> u64 {
    let mut words = [0; KEY_WORDS + 1];
    let (key, is_low) = table::key(packet);
    let is_server_low = u64::from(is_low == is_servers);
    for (to, from) in words.iter_mut().zip(key.into_iter().chain([is_server_low])) {
        *to = from;
    }
    siphash::words(&borders.key, &words)
}

/// The bucket of a hash.
fn bucket(borders: &mut Borders, tag: u64) -> &mut [Border] {
    let bucket = borders.buckets.get_mut(tag as usize % BUCKETS);
    bucket.map_or(&mut [], |bucket| &mut bucket[..])
}

/// State of the connection of a server's packet; None if there is none, or the packet comes from elsewhere.
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

/// Begins with a connection, by its client's SYN.
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

/// Notes where the next message of a server begins, by a packet of its own.
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

/// Sequence number of a server's next message; None if unknown.
pub fn next(borders: &mut Borders, packet: &Packet, input: &ConnectionInput) -> Option<u32> {
    let border = find(borders, packet, input)?;
    border.is_known.then_some(border.next)
}
