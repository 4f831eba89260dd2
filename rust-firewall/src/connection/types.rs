// SPDX-License-Identifier: GPL-2.0-or-later
//! What is kept of connections, and what is told of a packet.

use crate::names::Names;

/// No connection: what is told of a packet holds for this packet alone.
pub const SLOT_NONE: u32 = u32::MAX;

/// How many connections are followed, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// That are kept at once.
    pub connections: u32,
    /// Memory for what clients have sent until it is decided on.
    pub hello_bytes: u64,
    /// From a client's first byte until it must have shown its names.
    pub hello_timeout_ns: u64,
}

/// What the kernel says of a packet's checksum.
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

/// What comes with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionInput {
    pub checksum: ConnectionChecksum,
    /// Of the policy that decides; never 0.
    pub generation: u64,
    /// Of a clock that never goes back.
    pub now_ns: u64,
}

/// What becomes of a packet.
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

/// What is told of a packet. Good until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub kind: FollowedKind,
    /// Its connection, or SLOT_NONE.
    pub slot: u32,
}

/// What a policy makes of a connection's names, for who asks the policy. Zeroed whenever the names change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCache {
    /// Of the policy; 0 = nothing is kept.
    pub generation: u64,
    pub host_number: u32,
    pub alpn_bits: u32,
}

/// Where a connection stands. Each list is in the order of time and has one time-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionList {
    /// The client has sent nothing yet.
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
}

pub const LIST_COUNT: usize = 6;

/// Why names are unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionCause {
    /// A packet of a connection whose beginning was not seen.
    Midstream,
    /// The connection's ends may see another stream than we do.
    Ambiguous,
    /// The connection's bytes came with too many gaps, or beyond what is kept.
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
    /// What the client sent can't be read.
    Parse,
}

pub const CAUSE_COUNT: usize = 9;
/// Of `NamesProtocol`.
pub const PROTOCOL_COUNT: usize = 5;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that were begun to follow.
    pub opened: u64,
    /// Connections that are followed, by `ConnectionList`.
    pub now: [u64; LIST_COUNT],
    /// Connections, and queries of DNS, by `NamesProtocol`.
    pub decided: [u64; PROTOCOL_COUNT],
    /// Connections that the policy refused.
    pub denied: u64,
    /// Connections whose client claimed different bytes for one place.
    pub evasion: u64,
    /// By `ConnectionCause`: packets of Midstream, Cut, Fragment and Checksum and such as are so alone, else connections.
    pub unreadable: [u64; CAUSE_COUNT],
    /// Connections that made room for others, by `ConnectionList`.
    pub evicted: [u64; LIST_COUNT],
    /// Packets of versions of QUIC that are not understood.
    pub unknown_version: u64,
}

/// All connections of a worker.
#[derive(Debug)]
pub struct Connections {
    pub settings: ConnectionSettings,
    pub counts: ConnectionCounts,
    /// Of a packet that belongs to no connection.
    pub alone: Names,
}
