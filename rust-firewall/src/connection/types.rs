// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of connections, and of the names of a packet.

use crate::base::siphash::SiphashKey;
use crate::names::quic::{QuicKeys, QuicOpener};
use crate::names::{hello, quic, Names};

/// No connection: the names hold for this packet alone.
pub const SLOT_NONE: u32 = u32::MAX;

/// In place of an interface: this host.
pub const INTERFACE_HOST: u32 = 0;
/// In place of an interface: the hook does not tell.
pub const INTERFACE_UNKNOWN: u32 = u32::MAX;

/// How many connections are followed, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// That are kept at once.
    pub connections: u32,
    /// Memory for what clients have sent until it is decided on.
    pub hello_bytes: u64,
    /// From a client's first byte until it must have shown its names.
    pub hello_timeout_ns: u64,
    /// Bytes that pass each way while a client has not shown its names.
    pub undecided_bytes: u32,
}

/// Checksum state of a packet, as the kernel reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionChecksum {
    /// Nobody has looked at it.
    #[default]
    Unverified,
    /// It is right.
    Verified,
    /// The packet was made here and has none yet.
    NotReady,
}

/// Metadata of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionInput {
    pub checksum: ConnectionChecksum,
    /// It is several packets in one (NFQA_SKB_GSO), which its receiver sees apart.
    pub segmented: bool,
    /// The interface that it came in by, INTERFACE_HOST or INTERFACE_UNKNOWN.
    pub source_interface: u32,
    /// The interface that it leaves by, INTERFACE_HOST or INTERFACE_UNKNOWN.
    pub sink_interface: u32,
    /// Generation of the policy that decides; never 0.
    pub generation: u64,
    /// That policy asks for requests of HTTP.
    pub asks_requests: bool,
    /// Monotonic time.
    pub now_ns: u64,
}

/// Result for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FollowedKind {
    /// It has no names: neither TCP nor UDP.
    #[default]
    None,
    /// It has names: `names` of follow gives them.
    Names,
    /// Its connection is denied: it is dropped, and no rule is asked.
    Denied,
}

/// Names of a packet. Valid until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub kind: FollowedKind,
    /// Its connection, or SLOT_NONE.
    pub slot: u32,
}

/// Policy's numbers for a connection's names, for the caller of the policy. Zeroed whenever the names change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCache {
    /// Generation of the policy; 0 = none.
    pub generation: u64,
    pub host_number: u32,
    pub alpn_bits: u32,
}

/// List of a connection. Each list is in the order of time and has one time-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionList {
    /// The client has sent its SYN alone.
    #[default]
    Opening,
    /// The client has begun to show its names.
    Showing,
    /// Its names are known, and what it sent is kept until the server has it.
    Settling,
    /// All is known, of TCP.
    Known,
    /// All is known, of UDP.
    Datagrams,
    /// One of its ends has closed it, or it is denied.
    Closing,
    /// Both ends have opened it, and the client has sent nothing yet.
    Silent,
}

pub const LIST_COUNT: usize = 7;

/// Why names are unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionCause {
    /// A packet of a connection whose beginning was not seen.
    Midstream,
    /// The connection's ends may see another stream than we do.
    Ambiguous,
    /// The connection's bytes came with too many gaps, or are more than is kept or read.
    Gaps,
    /// There was no memory for the connection's bytes.
    Pool,
    /// The client did not show its names in time.
    Timeout,
    /// A packet's bytes were not copied from the kernel.
    Cut,
    /// A packet is a fragment.
    Fragment,
    /// A packet's checksum is wrong.
    Checksum,
    /// The client's bytes are unreadable.
    Parse,
    /// A packet came from another interface than the end that it claims to come from.
    Interface,
    /// More bytes passed than may while the client had not shown its names.
    Bound,
}

pub const CAUSE_COUNT: usize = 11;
/// Of `NamesProtocol`.
pub const PROTOCOL_COUNT: usize = 5;

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that were begun to follow.
    pub opened: u64,
    /// Connections that are followed, by `ConnectionList`.
    pub now: [u64; LIST_COUNT],
    /// Connections, queries of DNS, requests of HTTP, by `NamesProtocol`.
    pub decided: [u64; PROTOCOL_COUNT],
    /// Connections that the policy refused.
    pub denied: u64,
    /// Connections whose client claimed different bytes for one place.
    pub evasion: u64,
    /// By `ConnectionCause`: packets of Midstream, Cut, Fragment, Checksum and Interface and such as are so alone, else connections.
    pub unreadable: [u64; CAUSE_COUNT],
    /// Connections that made room for others, by `ConnectionList`.
    pub evicted: [u64; LIST_COUNT],
    /// Packets of versions of QUIC that are not understood.
    pub unknown_version: u64,
}

/// Of `StreamSpan` in a stream: so many pieces at once, with gaps between them.
pub const SPANS_MAX: usize = 16;
/// Bytes of a block of the pool.
pub const BLOCK_BYTES: usize = 1024;
/// Bytes of a stream.
pub const BLOCKS_MAX: usize = hello::BYTES_MAX / BLOCK_BYTES;
/// No block.
pub const BLOCK_NONE: u32 = u32::MAX;

/// Memory for what clients have sent, in blocks.
#[derive(Debug, Default)]
pub struct Pool {
    pub bytes: Vec<u8>,
    /// Next block of a free block.
    pub links: Vec<u32>,
    /// Blocks that were ever in use.
    pub used: u32,
    /// The first one that is free again.
    pub free: u32,
}

/// A piece of a stream without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSpan {
    pub start: u16,
    pub end: u16,
}

/// The first bytes of a client, put together. Offsets count from the first one.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The sequence number of offset 0.
    pub base: u32,
    /// Up to here it is decided on.
    pub decided: u32,
    /// Up to here the server has it.
    pub acked: u32,
    /// The stored bytes were freed.
    pub let_go: bool,
    /// DNS: a piece arrived before the bytes that precede it.
    pub ahead: bool,
    pub span_count: u8,
    /// Those that were kept: apart from each other, in their order.
    pub spans: [StreamSpan; SPANS_MAX],
    pub blocks: [u32; BLOCKS_MAX],
}

/// Both ends and the protocol, alike for both directions.
pub type ConnectionKey = [u64; KEY_WORDS];

/// Of `ConnectionKey`.
pub const KEY_WORDS: usize = 5;

/// Kind of the next bytes of an HTTP client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestsAwaited {
    /// A request.
    #[default]
    Header,
    /// A chunk of a body.
    Chunk,
    /// Those of a tunnel: no more is read.
    Nothing,
    /// Not known: the policy did not ask for requests.
    Lost,
}

/// How far the requests of a connection are read. The default is that none has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The offset in the stream where the next request or chunk begins.
    pub next: u64,
    pub awaited: RequestsAwaited,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub key: ConnectionKey,
    /// Bucket of its key; the next connection there, or, of a slot that is none, the next one that is free.
    pub bucket: u32,
    pub chained: u32,
    pub older: u32,
    pub newer: u32,
    /// Links in the list of its client's connections: its share, the previous and the next one.
    pub share: u32,
    pub share_older: u32,
    pub share_newer: u32,
    pub list: ConnectionList,
    /// UDP, else TCP.
    pub is_udp: bool,
    /// The client is the lower one of both ends.
    pub client_low: bool,
    /// Interface of each end's packets, INTERFACE_HOST or INTERFACE_UNKNOWN.
    pub client_interface: u32,
    pub server_interface: u32,
    /// Bytes that each end has sent while the client had not shown its names.
    pub client_passed: u32,
    pub server_passed: u32,
    /// The server has answered the client's SYN.
    pub confirmed: bool,
    /// One of the ends has closed it.
    pub closed: bool,
    /// Its client claimed different bytes for one place.
    pub evasion: bool,
    /// The server's port is that of DNS.
    pub is_dns: bool,
    /// TCP: sequence number of the client's first byte.
    pub begun: u32,
    /// With confirmed: the sequence number of the server's first byte, and of the one behind the last that was seen.
    pub server_begun: u32,
    pub server_end: u32,
    /// The client has sent data with its SYN.
    pub syn_data: bool,
    /// The server may still ask for another ClientHello.
    pub may_retry: bool,
    /// The server may still say that it is a tunnel.
    pub may_switch: bool,
    /// A Handshake packet of the QUIC server came after the names were known: it has the whole hello.
    pub accepted: bool,
    /// The server has sent a SYN of its own.
    pub crossed: bool,
    /// Another SYN came, which the server has not answered; from the lower one of both ends.
    pub pending: bool,
    pub pending_low: bool,
    /// With pending: the sequence number of its first byte, where it came from and went to.
    pub pending_base: u32,
    pub pending_client_interface: u32,
    pub pending_server_interface: u32,
    /// When it was begun to follow.
    pub opened_ns: u64,
    /// When it came to its list, or was used last.
    pub since_ns: u64,
    /// The generation of the policy that refused it; 0 = none has.
    pub denied: u64,
    /// With denied: both ends are told so.
    pub is_reset: bool,
    pub cache: ConnectionCache,
    pub stream: Stream,
    pub keys: QuicKeys,
    /// The connection id that the keys are of.
    pub id: [u8; quic::CONNECTION_BYTES_MAX],
    pub id_bytes: u8,
    /// It can be found by its id; then the next one of that bucket.
    pub has_id: bool,
    pub id_chained: u32,
    pub names: Names,
    /// HTTP: the reader's state now, and at the start of the stream.
    pub requests: Requests,
    pub requests_begun: Requests,
}

/// Connections in the order of their time.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub oldest: u32,
    pub newest: u32,
    pub count: u32,
}

/// That a connection was forgotten whose server may go on with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grave {
    /// The upper half of its hash, or 0 for any.
    pub tag: u32,
    /// When, in seconds from 1; 0 = none was.
    pub second: u32,
}

/// The connections of the clients of one place, from the oldest on. Slots are plus 1; 0 = none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    pub oldest: u32,
    pub newest: u32,
    pub count: u32,
}

/// Connections by their key.
#[derive(Debug)]
pub struct Table {
    pub key: SiphashKey,
    /// Buckets - 1; they are a power of 2.
    pub mask: u32,
    /// The first connection of each bucket, plus 1.
    pub buckets: Vec<u32>,
    /// The same by the connection id of QUIC.
    pub id_buckets: Vec<u32>,
    /// One a bucket, by a hash of their own, which goes on in upgrades.
    pub graves: Vec<Grave>,
    pub grave_key: SiphashKey,
    /// One a bucket, by the hash of a client's address.
    pub shares: Vec<Share>,
    /// Those that were ever in use, at most `limit`.
    pub slots: Vec<Connection>,
    pub limit: u32,
    /// The first one that is free again.
    pub free: u32,
    pub lists: [List; LIST_COUNT],
    /// Value of no slot.
    pub spare: Connection,
}

/// The queries of DNS over TCP, or requests of HTTP, that the packet at hand is judged by, in what is gathered.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionQueries {
    /// Their connection; SLOT_NONE: none is left.
    pub slot: u32,
    /// Slot of the next query.
    pub place: u32,
    /// Length of the gathered bytes.
    pub end: u32,
    /// DNS: end of the readable queries.
    pub limit: u32,
    /// End of the queries that were counted with another packet.
    pub counted: u32,
    /// That may be read.
    pub left: u32,
}

/// All connections of a worker.
#[derive(Debug)]
pub struct Connections {
    pub settings: ConnectionSettings,
    pub counts: ConnectionCounts,
    pub table: Table,
    pub pool: Pool,
    /// State of the packet that was followed last.
    pub now_ns: u64,
    /// The packet that was followed last comes from the lower one of both ends; of TCP and UDP.
    pub is_low: bool,
    /// When it is looked next whose time is over.
    pub expire_ns: u64,
    pub opener: QuicOpener,
    /// A stream's bytes in one piece.
    pub gathered: Box<[u8; hello::BYTES_MAX]>,
    /// Buffer of the parsers.
    pub scratch: Box<[u8; hello::BYTES_MAX]>,
    /// The frames of an Initial packet; hello::BYTES_MAX bytes.
    pub plain: Vec<u8>,
    /// State of a packet without a connection.
    pub alone: Names,
    pub queries: ConnectionQueries,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            base: 0,
            decided: 0,
            acked: 0,
            let_go: false,
            ahead: false,
            span_count: 0,
            spans: [StreamSpan::default(); SPANS_MAX],
            blocks: [BLOCK_NONE; BLOCKS_MAX],
        }
    }
}

impl Default for ConnectionQueries {
    fn default() -> Self {
        ConnectionQueries {
            slot: SLOT_NONE,
            place: 0,
            end: 0,
            limit: 0,
            counted: 0,
            left: 0,
        }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            key: [0; KEY_WORDS],
            bucket: 0,
            chained: SLOT_NONE,
            older: SLOT_NONE,
            newer: SLOT_NONE,
            share: 0,
            share_older: SLOT_NONE,
            share_newer: SLOT_NONE,
            list: ConnectionList::Opening,
            is_udp: false,
            client_low: false,
            client_interface: INTERFACE_HOST,
            server_interface: INTERFACE_HOST,
            client_passed: 0,
            server_passed: 0,
            confirmed: false,
            closed: false,
            evasion: false,
            is_dns: false,
            begun: 0,
            server_begun: 0,
            server_end: 0,
            syn_data: false,
            crossed: false,
            may_retry: false,
            may_switch: false,
            accepted: false,
            pending: false,
            pending_low: false,
            pending_base: 0,
            pending_client_interface: INTERFACE_HOST,
            pending_server_interface: INTERFACE_HOST,
            opened_ns: 0,
            since_ns: 0,
            denied: 0,
            is_reset: false,
            cache: ConnectionCache::default(),
            stream: Stream::default(),
            keys: QuicKeys::default(),
            id: [0; quic::CONNECTION_BYTES_MAX],
            id_bytes: 0,
            has_id: false,
            id_chained: SLOT_NONE,
            names: Names::default(),
            requests: Requests::default(),
            requests_begun: Requests::default(),
        }
    }
}
