// SPDX-License-Identifier: GPL-2.0-or-later
//! UDP flows with port 53, by the end that opened them: only an end that opened a flow sends queries in it.
//!
//! Theory of operation: the server is the end with port 53, the client the other end, whichever opened the flow. A
//! server that opens a flow to a UDP service chooses bytes that the service repeats, and the reply to port 53 reads as
//! a query. So a flow is stored with its client's first packet. Each later packet of the client prolongs it, by at
//! least the timeout of conntrack. A server's packet that belongs to no such flow opens a reversed flow, which is kept
//! as long after the last packet of either end. A client that was forgotten has a reversed flow after the server's next
//! packet: then nothing is learned. In a full bucket of clients the oldest entry is replaced. A reversed flow is never
//! replaced. If a new reversed flow has no place, only its client's address and port are stored, so that many flows to
//! one service don't affect other clients. If these have no place either, no client in the bucket opens a flow. Hashes
//! have a random key, so a sender can't choose a bucket. A packet with port 53 at both ends counts as a client's and as
//! a server's packet.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash::{self, SiphashKey};
use crate::connection::types::{ConnectionInput, INTERFACE_UNKNOWN, KEY_WORDS};
use crate::connection::{direction, table};
use crate::packet::Packet;

/// Port of DNS servers.
const DNS_PORT: u16 = 53;
/// Number of buckets in the table `clients`: flows that their client opened.
const CLIENT_BUCKETS: usize = 2048;
/// Number of buckets in the table `reversed`: flows that their server opened.
const REVERSED_BUCKETS: usize = 1024;
/// Number of buckets in the table `ends`: clients of reversed flows that have no place in `reversed`.
const END_BUCKETS: usize = 256;
const BUCKET_FLOWS: usize = 8;
/// Time that a flow is kept after its last packet (in the table `clients`: after the client's last packet): at least as
/// long as conntrack keeps one, by default 120 s, and 180 s before Linux 5.0 (nf_conntrack_udp_timeout_stream;
/// nf_conntrack_udp_packet in net/netfilter/nf_conntrack_proto_udp.c prolongs it with packets of both ends).
const KEEP_NS: u64 = 180_000_000_000;

/// Entry of a table of `Openers`: the hash of a flow, or of a client's address and port.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    tag: u64,
    /// Expiry time; 0 means that the entry is unused.
    end_ns: u64,
    /// Source and sink interface of the client's last packet, in the table `clients` only.
    client_interface: u32,
    server_interface: u32,
}

/// Entries of a table of `Openers` whose hashes are equal in their lowest bits.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    flows: [Flow; BUCKET_FLOWS],
    /// Time until which an entry may be missing because the bucket was full.
    full_ns: u64,
}

/// UDP flows with port 53 of a worker, by the end that opened them.
#[derive(Debug)]
pub struct Openers {
    key: SiphashKey,
    clients: Vec<Bucket>,
    reversed: Vec<Bucket>,
    /// Clients (address and port) of those reversed flows that have no place in `reversed`.
    ends: Vec<Bucket>,
}

/// Makes empty tables.
pub fn make() -> Openers {
    Openers {
        key: siphash::draw(),
        clients: vec![Bucket::default(); CLIENT_BUCKETS],
        reversed: vec![Bucket::default(); REVERSED_BUCKETS],
        ends: vec![Bucket::default(); END_BUCKETS],
    }
}

/// Returns the hash of a packet's flow.
/// - is_servers: true if the packet comes from the server.
fn hash(openers: &Openers, packet: &Packet, is_servers: bool) -> u64 {
    let mut words = [0; KEY_WORDS + 1];
    let (key, is_low) = table::key(packet);
    let is_server_low = u64::from(is_low == is_servers);
    for (to, from) in words.iter_mut().zip(key.into_iter().chain([is_server_low])) {
        *to = from;
    }
    siphash::words(&openers.key, &words)
}

/// Returns the hash of the address and port of a packet's client.
/// - is_servers: true if the packet comes from the server.
fn hash_client(openers: &Openers, packet: &Packet, is_servers: bool) -> u64 {
    siphash::words(&openers.key, &table::end(packet, !is_servers))
}

/// Returns the place for an entry in its bucket: the place that it has, or the place of the entry that expires first.
fn place(bucket: &mut Bucket, tag: u64) -> Option<&mut Flow> {
    let all = bucket.flows.iter_mut();
    all.min_by_key(|flow| match flow.tag == tag {
        true => 0,
        false => flow.end_ns.max(1),
    })
}

/// Returns the entry with a hash (`tag`); None if there is none, or it has expired.
fn find(buckets: &[Bucket], tag: u64, now_ns: u64) -> Option<&Flow> {
    let bucket = buckets.get(tag as usize % buckets.len().max(1))?;
    let mut all = bucket.flows.iter();
    all.find(|flow| flow.tag == tag && flow.end_ns > now_ns)
}

/// Stores or prolongs an entry; replaces only expired entries. Returns false if the bucket is full, and records that in
/// full_ns.
fn keep(buckets: &mut [Bucket], tag: u64, now_ns: u64) -> bool {
    let count = buckets.len().max(1);
    let Some(bucket) = buckets.get_mut(tag as usize % count) else {
        return false;
    };
    let flow = place(bucket, tag).filter(|flow| flow.tag == tag || flow.end_ns <= now_ns);
    let Some(flow) = flow else {
        bucket.full_ns = now_ns + KEEP_NS;
        return false;
    };
    flow.tag = tag;
    flow.end_ns = now_ns + KEEP_NS;
    true
}

/// Stores a flow that its client opened.
fn keep_client(openers: &mut Openers, tag: u64, input: &ConnectionInput) {
    let bucket = openers.clients.get_mut(tag as usize % CLIENT_BUCKETS);
    if let Some(flow) = bucket.and_then(|bucket| place(bucket, tag)) {
        *flow = Flow {
            tag,
            end_ns: input.now_ns + KEEP_NS,
            client_interface: input.source_interface,
            server_interface: input.sink_interface,
        };
    }
}

/// Returns true if a client's packet belongs to a reversed flow (opened by its server), which is then prolonged, or to
/// a client that may have a reversed flow.
fn is_reversed(openers: &mut Openers, packet: &Packet, tag: u64, now_ns: u64) -> bool {
    if find(&openers.reversed, tag, now_ns).is_some() {
        return keep(&mut openers.reversed, tag, now_ns);
    }
    let end = hash_client(openers, packet, false);
    if find(&openers.ends, end, now_ns).is_some() {
        return keep(&mut openers.ends, end, now_ns);
    }
    let bucket = openers.ends.get(end as usize % END_BUCKETS);
    bucket.is_some_and(|bucket| bucket.full_ns > now_ns)
}

/// Returns true if a client's packet belongs to a flow that the client opened, and comes in by the interface of the
/// client's last packet. False until `note` has stored the flow.
pub fn is_clients(openers: &Openers, packet: &Packet, input: &ConnectionInput) -> bool {
    let tag = hash(openers, packet, false);
    let flow = find(&openers.clients, tag, input.now_ns);
    flow.is_some_and(|flow| direction::answers(INTERFACE_UNKNOWN, flow.client_interface, input))
}

/// Stores the flow of a packet to port 53 as opened by its client, unless the flow is reversed (opened by its server)
/// or its client may have a reversed flow. A flow that is stored as opened by its client already (`is_clients`) is
/// always stored again.
fn note_client(openers: &mut Openers, packet: &Packet, input: &ConnectionInput) {
    let tag = hash(openers, packet, false);
    if is_clients(openers, packet, input) || !is_reversed(openers, packet, tag, input.now_ns) {
        keep_client(openers, tag, input);
    }
}

/// Stores the flow of a packet from port 53 as reversed (opened by its server). Stores nothing if the client opened the
/// flow, and the packet's interfaces are those of the client's last packet in reverse. If the flow has no place in
/// `reversed`, stores only its client's address and port.
fn note_server(openers: &mut Openers, packet: &Packet, input: &ConnectionInput) {
    let tag = hash(openers, packet, true);
    let flow = find(&openers.clients, tag, input.now_ns);
    let is_known = flow.is_some_and(|flow| {
        direction::answers_query(flow.client_interface, flow.server_interface, input)
    });
    if !is_known && !keep(&mut openers.reversed, tag, input.now_ns) {
        let end = hash_client(openers, packet, true);
        keep(&mut openers.ends, end, input.now_ns);
    }
}

/// Stores the flow of an accepted UDP packet, if one of its ports is 53.
pub fn note(openers: &mut Openers, packet: &Packet, input: &ConnectionInput) {
    if packet.destination_port == DNS_PORT {
        note_client(openers, packet, input);
    }
    if packet.source_port == DNS_PORT {
        note_server(openers, packet, input);
    }
}
