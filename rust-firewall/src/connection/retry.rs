// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a server of TLS asks its client for another ClientHello (HelloRetryRequest, RFC 8446, section 4.1.4), and that this names the same.
//!
//! Theory of operation: a server that asks for another hello serves what that one names. So a name is final once the server's first message
//! is seen to be no such request, or the other hello is there. Until then, what the client sends behind its hello is kept and read, too: it may
//! hold the other hello before the server has asked for it.
#![deny(clippy::indexing_slicing)]

use crate::connection::opening;
use crate::connection::segment::Segment;
use crate::connection::types::{
    Connection, ConnectionCause, ConnectionList, Connections, Followed,
};
use crate::connection::{lifetime, stream, table};
use crate::names::{hello, record, Names, NamesProtocol, NamesState};

/// The lowest version of TLS that has a retry.
const VERSION_1_3: u16 = 0x0304;
/// Bytes of the server's start: the header of a record and of a handshake message, a version, and the server's random bytes.
const HEAD_BYTES: usize = 43;
/// Start of a HelloRetryRequest: a handshake record, in it a ServerHello, with random bytes that are SHA-256 of "HelloRetryRequest".
const HEAD: [u8; HEAD_BYTES] = [
    0x16, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe,
    0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07,
    0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// By the place of a byte: it is the same in all of them.
const FIXED: u64 = 0x7ff_ffff_f821;

/// Whether a server may ask for another hello than the one that shows these names.
pub fn can(names: &Names) -> bool {
    names.state == NamesState::Known
        && names.protocol == NamesProtocol::Tls
        && names.version >= VERSION_1_3
}

/// Reads a server's bytes: one that differs from a HelloRetryRequest shows that there is none.
pub fn hear(connection: &mut Connection, segment: &Segment) {
    let offset = segment.sequence.wrapping_sub(connection.server_begun) as usize;
    let expected = HEAD.iter().enumerate().skip(offset);
    for ((place, expected), byte) in expected.zip(segment.data) {
        if FIXED >> place & 1 == 1 && byte != expected {
            connection.may_retry = false;
        }
    }
}

/// Moves a connection to its final list if its names can't change any more.
pub fn settle(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let is_over = opening::is_finished(connection) && connection.list == ConnectionList::Settling;
    if is_over && !(connection.is_dns && stream::has_more(&connection.stream)) {
        lifetime::settle(connections, slot, now_ns);
    }
}

/// Reads what is there behind a hello without a gap: another one must name the same.
pub fn read(connections: &mut Connections, slot: u32, now_ns: u64) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let (gathered, scratch) = (&mut connections.gathered, &mut connections.scratch);
    let pool = &mut connections.pool;
    let mut head = [0; record::HEAD_BYTES];
    let head_bytes = head.len() as u32;
    stream::gather(&connection.stream, pool, 0, head_bytes, &mut head);
    if record::is_alone(&head, end) {
        return lifetime::named(connections, slot);
    }
    stream::gather(&connection.stream, pool, 0, end, &mut gathered[..]);
    let bytes = gathered.get(..end as usize).unwrap_or_default();
    let other = &mut connections.alone;
    let state = record::read_second(bytes, scratch, other);
    if state == NamesState::Unreadable {
        let cause = ConnectionCause::Parse;
        return lifetime::unreadable(connections, slot, cause, now_ns);
    }
    if state == NamesState::Known && !hello::is_same(&connection.names, other) {
        return lifetime::evade(connections, slot, now_ns);
    }
    connection.may_retry = state == NamesState::Undecided;
    if state == NamesState::Known {
        connection.stream.decided = end;
    }
    settle(connections, slot, now_ns);
    lifetime::named(connections, slot)
}
