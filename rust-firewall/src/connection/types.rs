// SPDX-License-Identifier: GPL-2.0-or-later
//! Data types of followed connections, and of the result for a packet.

use crate::base::siphash::SiphashKey;
use crate::names::progress::NamesProgress;
use crate::names::quic::{QuicKeys, QuicOpener};
use crate::names::{hello, quic, Names};

/// Slot (index in the table of connections) that means no connection.
pub const SLOT_NONE: u32 = u32::MAX;

/// Index that stands for this host in place of an interface: the host itself sends or receives the packet.
pub const INTERFACE_HOST: u32 = 0;
/// Index of an unknown interface: the hook does not report it.
pub const INTERFACE_UNKNOWN: u32 = u32::MAX;

/// Limits of the connections of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Maximum number of connections that one worker follows.
    pub connections: u32,
    /// Memory for the clients' bytes that names are read from, in bytes.
    pub hello_bytes: u64,
    /// Time limit for a client's names, from its first byte; also for the storage of its bytes after the names are
    /// known.
    pub hello_timeout_ns: u64,
    /// Maximum number of data bytes that pass in each direction before the client has sent its names.
    pub undecided_bytes: u32,
}

/// Checksum state of a packet, as the kernel reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionChecksum {
    /// The kernel has not checked the checksum.
    #[default]
    Unverified,
    /// The checksum is correct.
    Verified,
    /// The kernel has not written the checksum yet (NFQA_SKB_CSUMNOTREADY).
    NotReady,
}

/// Metadata of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionInput {
    pub checksum: ConnectionChecksum,
    /// True if the packet combines several packets (NFQA_SKB_GSO), which its receiver may get separately.
    pub segmented: bool,
    /// Index of the packet's input interface, or INTERFACE_HOST or INTERFACE_UNKNOWN.
    pub source_interface: u32,
    /// Index of the packet's output interface, or INTERFACE_HOST or INTERFACE_UNKNOWN.
    pub sink_interface: u32,
    /// Generation of the policy that decides; never 0.
    pub generation: u64,
    /// True if the policy that decides reads HTTP requests.
    pub asks_requests: bool,
    /// DNS: true if the kernel has checked that the client opened the packet's flow (--stage).
    pub is_directed: bool,
    /// Time of the packet's decision in nanoseconds; never decreases.
    pub now_ns: u64,
}

/// Kind of the result of following a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FollowedKind {
    /// The packet has no names: it is neither TCP nor UDP.
    #[default]
    None,
    /// The packet has names, in any state; the function `names` returns them.
    Names,
    /// The connection is denied: the packet is dropped, or rejected with a RST (is_reset), without evaluating rules.
    Denied,
}

/// Result of following a packet, with which `names` finds its names. Valid until the next packet is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub kind: FollowedKind,
    /// Slot of the packet's connection; SLOT_NONE if the packet has none, or has names of its own.
    pub slot: u32,
}

/// Numbers that the engine has found for a connection's names in a policy: the number of the host name, and the bits of
/// the ALPN protocols. Zeroed when the names change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCache {
    /// Generation of the policy that the numbers belong to; 0 means that there are no numbers.
    pub generation: u64,
    pub host_number: u32,
    pub alpn_bits: u32,
}

/// Timeout list that contains a connection. Each list is ordered by time and has one timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionList {
    /// TCP: the client has not acknowledged the server's answer to its SYN yet.
    #[default]
    Opening,
    /// The client has sent a part of the bytes that show its names, or of another DNS query or HTTP request.
    Showing,
    /// The names are known. The client's bytes are kept until the TCP server has acknowledged them, the time limit
    /// ends, or another connection needs the memory.
    Settling,
    /// TCP with known names, after the list Settling.
    Known,
    /// UDP with known names, after the list Settling.
    Datagrams,
    /// One of the ends has closed the connection, or the connection is denied or unreadable.
    Closing,
    /// Both ends have opened the connection, and the client has sent no data yet.
    Silent,
}

pub const LIST_COUNT: usize = 7;

/// Reason why names are unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionCause {
    /// A packet of a connection whose beginning was not seen, or that was forgotten.
    Midstream,
    /// The connection's ends may see another stream than the firewall.
    Ambiguous,
    /// The connection's bytes have too many gaps, exceed the maximum length of a stream, or contain too many queries or
    /// requests for one packet.
    Gaps,
    /// There was no memory for the connection's bytes.
    Pool,
    /// The client did not send its names in time.
    Timeout,
    /// A packet's bytes were not copied, or its header is malformed.
    Cut,
    /// A packet is a fragment.
    Fragment,
    /// A packet's checksum is incorrect.
    Checksum,
    /// The client's bytes can't be parsed or decrypted.
    Parse,
    /// A packet came in by another interface than that of its sender's end, or a server's UDP datagram leaves by
    /// another interface than the client's.
    Interface,
    /// More bytes passed than the limit while the client had not sent its names.
    Bound,
}

pub const CAUSE_COUNT: usize = 11;
/// Number of values of `NamesProtocol`.
pub const PROTOCOL_COUNT: usize = 5;

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Opened connections, without those of an upgrade.
    pub opened: u64,
    /// Connections followed now, by `ConnectionList`.
    pub now: [u64; LIST_COUNT],
    /// Connections whose names became known, by `NamesProtocol`. Each DNS query counts, and each HTTP request if the
    /// policy reads requests.
    pub decided: [u64; PROTOCOL_COUNT],
    /// Connections that a policy refused, counted once for each policy.
    pub denied: u64,
    /// Connections whose client sent different bytes for the same position, or different names in a second ClientHello.
    pub evasion: u64,
    /// Connections that became unreadable, and packets that are unreadable regardless of their connection, by
    /// `ConnectionCause`. Midstream, Cut, Fragment, Checksum and Interface count packets only.
    pub unreadable: [u64; CAUSE_COUNT],
    /// Evicted connections, by `ConnectionList`.
    pub evicted: [u64; LIST_COUNT],
    /// UDP packets that begin like a QUIC packet of an unsupported version, and are not from or to port 53, nor from
    /// the server of a followed connection.
    pub unknown_version: u64,
}

/// Maximum number of pieces of a stream with gaps between them.
pub const SPANS_MAX: usize = 16;
/// Size in bytes of a block of memory for clients' bytes.
pub const BLOCK_BYTES: usize = 1024;
/// Maximum number of blocks of a client's stream.
pub const BLOCKS_MAX: usize = hello::BYTES_MAX / BLOCK_BYTES;
/// Index that means no block.
pub const BLOCK_NONE: u32 = u32::MAX;

/// Memory for clients' bytes, in blocks.
#[derive(Debug, Default)]
pub struct Pool {
    pub bytes: Vec<u8>,
    /// For each freed block, the freed block to use after it.
    pub links: Vec<u32>,
    /// Number of blocks that were ever in use.
    pub used: u32,
    /// Freed block to use next; BLOCK_NONE if there is none.
    pub free: u32,
}

/// Piece of a stream without a gap: offsets of its first byte and after its last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSpan {
    pub start: u16,
    pub end: u16,
}

/// Stored bytes of a client's stream, assembled from packets. Offsets count from `base`.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Sequence number of offset 0.
    pub base: u32,
    /// Offset after the bytes that names (or heads of HTTP chunks) were read from.
    pub decided: u32,
    /// Offset after the bytes that the server has acknowledged.
    pub acked: u32,
    /// True if the stored bytes were freed, so that later bytes can't be compared with them.
    pub let_go: bool,
    /// DNS: true if a piece arrived before the bytes that precede it in the stream.
    pub ahead: bool,
    pub span_count: u8,
    /// Stored pieces, separate from each other and in order.
    pub spans: [StreamSpan; SPANS_MAX],
    pub blocks: [u32; BLOCKS_MAX],
}

/// Addresses and ports of both ends, IP version and protocol. Equal for both directions: the lower end (with the
/// smaller address, or at equal addresses the smaller port) is first.
pub type ConnectionKey = [u64; KEY_WORDS];

/// Number of words of `ConnectionKey`.
pub const KEY_WORDS: usize = 5;
/// Number of words of one end of a connection: port, version and protocol; address.
pub const END_WORDS: usize = 3;

/// Kind of the next bytes of an HTTP client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestsAwaited {
    /// The next bytes are a request.
    #[default]
    Header,
    /// The next bytes are a chunk of a body.
    Chunk,
    /// The next bytes are those of a tunnel: nothing more is read.
    Nothing,
    /// The next bytes are unknown: the policy did not read requests.
    Lost,
}

/// State of the parser of a connection's HTTP requests. The default value is the state at the start of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Offset in the stream of the next request or chunk.
    pub next: u64,
    pub awaited: RequestsAwaited,
}

/// A followed connection: an entry of the connection table.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub key: ConnectionKey,
    /// Index of the key's bucket in the connection table.
    pub bucket: u32,
    /// Slot of the next connection in the key's bucket; for a free slot, the next free slot.
    pub chained: u32,
    /// Slots of the next older and the next newer connection in the timeout list.
    pub older: u32,
    pub newer: u32,
    /// Index of the client's share (see `Share`).
    pub share: u32,
    /// Slots of the next older and the next newer connection in the client's share.
    pub share_older: u32,
    pub share_newer: u32,
    pub list: ConnectionList,
    /// True for UDP, false for TCP.
    pub is_udp: bool,
    /// True if the client is the lower end (by address and port).
    pub client_low: bool,
    /// Index of the interface by which each end's packets come in; INTERFACE_HOST if the end is this host,
    /// INTERFACE_UNKNOWN if it is unknown.
    pub client_interface: u32,
    pub server_interface: u32,
    /// Number of data bytes that passed from the client and from the server while the client had not sent its names.
    pub client_passed: u32,
    pub server_passed: u32,
    /// True if the server has answered the client's SYN.
    pub confirmed: bool,
    /// True if one of the ends has closed the connection, or it is denied or unreadable.
    pub closed: bool,
    /// True if the client sent different bytes for the same position of its stream, or different names in a second
    /// ClientHello.
    pub evasion: bool,
    /// True if the server's port is that of DNS.
    pub is_dns: bool,
    /// TCP: sequence number of the client's first byte.
    pub begun: u32,
    /// Sequence numbers of the server's first byte and of the byte after its latest byte; valid if confirmed.
    pub server_begun: u32,
    pub server_end: u32,
    /// True if the client has sent data with its SYN.
    pub syn_data: bool,
    /// True if the server may still request another ClientHello.
    pub may_retry: bool,
    /// True if the server may still turn the connection into a tunnel (HTTP CONNECT or Upgrade).
    pub may_switch: bool,
    /// True if a Handshake packet of the QUIC server came after the names were known: the server has the complete
    /// ClientHello.
    pub accepted: bool,
    /// True if the server has sent a SYN without ACK while the client's SYN was not answered.
    pub crossed: bool,
    /// True if another SYN came that the server has not answered yet.
    pub pending: bool,
    /// True if the pending SYN came from the lower end (by address and port).
    pub pending_low: bool,
    /// Sequence number of the first byte after the pending SYN.
    pub pending_base: u32,
    /// Source and sink interface of the pending SYN.
    pub pending_client_interface: u32,
    pub pending_server_interface: u32,
    /// Time when the connection was first followed; after an upgrade, since_ns at the hand-over.
    pub opened_ns: u64,
    /// Time when the connection entered its list, or was used last.
    pub since_ns: u64,
    /// Generation of the policy that refused the connection; 0 means none.
    pub denied: u64,
    /// True if both ends of the denied connection get a RST.
    pub is_reset: bool,
    pub cache: ConnectionCache,
    pub stream: Stream,
    pub keys: QuicKeys,
    /// QUIC connection id from which the keys are derived.
    pub id: [u8; quic::CONNECTION_BYTES_MAX],
    pub id_bytes: u8,
    /// True if the connection can be found by its QUIC connection id.
    pub has_id: bool,
    /// Slot of the next connection in the id's bucket, if has_id.
    pub id_chained: u32,
    pub names: Names,
    /// TCP: progress of the parsers in the message that is being read: the client's first message, then its second
    /// ClientHello or the next request.
    pub progress: NamesProgress,
    /// HTTP: state of the requests' parser now, and at `stream.base` (the start of the stored bytes).
    pub requests: Requests,
    pub requests_begun: Requests,
}

/// List of connections in order of time: slots of the oldest and the newest connection, and their number.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub oldest: u32,
    pub newest: u32,
    pub count: u32,
}

/// Record of a connection that was removed from the table although its server may continue it, or of a QUIC connection
/// id that was given up. It is valid for GRAVE_SECONDS.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grave {
    /// Upper half of the hash of the connection's key or of the id; 0 matches any connection or id.
    pub tag: u32,
    /// Monotonic time in seconds, plus 1, when the connection was forgotten or the id given up; 0 means no record.
    pub second: u32,
}

/// Share: list of the connections of all clients whose addresses (IPv6: networks of 64 bits) have the same index in
/// `shares`, in the order in which they were added. Slots are stored plus 1; 0 means none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    pub oldest: u32,
    pub newest: u32,
    pub count: u32,
}

/// Table of connections by their key, and in lists by time.
#[derive(Debug)]
pub struct Table {
    /// Hash key; an upgrade hands it over with the graves.
    pub key: SiphashKey,
    /// Number of buckets - 1; the number is a power of 2.
    pub mask: u32,
    /// Slot of each bucket's first connection, plus 1; 0 means none.
    pub buckets: Vec<u32>,
    /// Slot of the first connection in each bucket of QUIC connection ids, plus 1; 0 means none.
    pub id_buckets: Vec<u32>,
    /// Records of recently forgotten connections and given up QUIC connection ids, one per bucket, at the buckets of
    /// their hashes.
    pub graves: Vec<Grave>,
    /// Lists of connections by the hash of their client's address; as many as there are buckets.
    pub shares: Vec<Share>,
    /// Slots that were ever in use, at most `limit`.
    pub slots: Vec<Connection>,
    pub limit: u32,
    /// Freed slot to use next; SLOT_NONE if there is none.
    pub free: u32,
    pub lists: [List; LIST_COUNT],
    /// Unused connection that is returned for SLOT_NONE.
    pub spare: Connection,
}

/// Position in a connection's DNS queries over TCP or HTTP requests, of which several may decide the current packet one
/// after another. Offsets count from the start of `gathered` (below).
#[derive(Clone, Copy, Debug)]
pub struct ConnectionQueries {
    /// Slot of the connection that sent the queries or requests; SLOT_NONE if none of them is left.
    pub slot: u32,
    /// Offset of the next query, request or chunk.
    pub place: u32,
    /// Length of the gathered bytes.
    pub end: u32,
    /// DNS: offset at which the queries that decide the current packet end; a query that begins there or later does not
    /// decide.
    pub limit: u32,
    /// End of the queries or requests that were already counted with an earlier packet.
    pub counted: u32,
    /// Number of queries or requests that may still be read for the current packet.
    pub left: u32,
}

/// All connections of a worker.
#[derive(Debug)]
pub struct Connections {
    pub settings: ConnectionSettings,
    pub counts: ConnectionCounts,
    pub table: Table,
    pub pool: Pool,
    /// Time of the packet followed last.
    pub now_ns: u64,
    /// True if the packet followed last, of TCP or UDP, comes from the lower end (by address and port).
    pub is_low: bool,
    /// Time of the next check for expired connections.
    pub expire_ns: u64,
    pub opener: QuicOpener,
    /// Buffer for the bytes of a stream up to a gap, copied from its blocks.
    pub gathered: Box<[u8; hello::BYTES_MAX]>,
    /// Buffer of the parsers for joining a ClientHello.
    pub scratch: Box<[u8; hello::BYTES_MAX]>,
    /// Buffer for the decrypted frames of an Initial packet; hello::BYTES_MAX bytes.
    pub plain: Vec<u8>,
    /// Names that belong to one packet only, not to a connection.
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
            progress: NamesProgress::default(),
            requests: Requests::default(),
            requests_begun: Requests::default(),
        }
    }
}
