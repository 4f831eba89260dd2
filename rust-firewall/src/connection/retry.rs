// SPDX-License-Identifier: GPL-2.0-or-later
//! Detection of a TLS server's request for a second ClientHello (HelloRetryRequest, RFC 8446, section 4.1.4), and check
//! that the second ClientHello has the same names as the first.
//!
//! Theory of operation: a server that requests another ClientHello uses the name in the second. So a name is final once
//! the server's first message is known not to be such a request, or the second ClientHello has arrived. Until then the
//! client's bytes after its ClientHello are kept and read, too: they may contain the second ClientHello before the
//! server has requested it.
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
/// Length of the start of a server's first message: the headers of a record and of a handshake message, a version, and
/// the server's random bytes.
const HEAD_BYTES: usize = 43;
/// Start of a HelloRetryRequest: a handshake record with a ServerHello, whose random bytes are SHA-256 of
/// "HelloRetryRequest".
const HEAD: [u8; HEAD_BYTES] = [
    0x16, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe,
    0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07,
    0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Bit mask of HEAD: bit n is set if all HelloRetryRequests have the byte n of HEAD.
const FIXED: u64 = 0x7ff_ffff_f821;

/// Returns true if a server may request a second ClientHello after a ClientHello with these names.
pub fn can(names: &Names) -> bool {
    names.state == NamesState::Known
        && names.protocol == NamesProtocol::Tls
        && names.version >= VERSION_1_3
}

/// Compares a server's first bytes with the start of a HelloRetryRequest. A difference shows that the server sends no
/// HelloRetryRequest: `may_retry` becomes false.
pub fn hear(connection: &mut Connection, segment: &Segment) {
    let offset = segment.sequence.wrapping_sub(connection.server_begun) as usize;
    let expected = HEAD.iter().enumerate().skip(offset);
    for ((place, expected), byte) in expected.zip(segment.data) {
        if FIXED >> place & 1 == 1 && byte != expected {
            connection.may_retry = false;
        }
    }
}

/// Settles a connection (see `lifetime::settle`) if it is in the list Settling, its names are final, its server has
/// acknowledged the bytes that they were read from, and no part of another DNS query is stored.
pub fn settle(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let is_over = opening::is_finished(connection) && connection.list == ConnectionList::Settling;
    if is_over && !(connection.is_dns && stream::has_more(&connection.stream)) {
        lifetime::settle(connections, slot, now_ns);
    }
}

/// Reads the bytes after the first ClientHello up to the first gap: a second ClientHello must have the same names.
pub fn parse(connections: &mut Connections, slot: u32, now_ns: u64) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let (gathered, scratch) = (&mut connections.gathered, &mut connections.scratch);
    let pool = &mut connections.pool;
    let mut head = [0; record::HEAD_BYTES];
    let head_bytes = head.len() as u32;
    stream::gather(&connection.stream, pool, 0, head_bytes, &mut head);
    if record::is_alone(&head, end) {
        return lifetime::packet_names(connections, slot);
    }
    stream::gather(&connection.stream, pool, 0, end, &mut gathered[..]);
    let bytes = gathered.get(..end as usize).unwrap_or_default();
    let (progress, other) = (&mut connection.progress, &mut connections.alone);
    let state = record::parse_second(bytes, scratch, progress, other);
    if state == NamesState::Unreadable {
        let cause = ConnectionCause::Parse;
        return lifetime::make_unreadable(connections, slot, cause, now_ns);
    }
    if state == NamesState::Known && !hello::is_same(&connection.names, other) {
        return lifetime::deny_evasion(connections, slot, now_ns);
    }
    connection.may_retry = state == NamesState::Undecided;
    // The names are final only once the server has these bytes, also if another message is in the second hello's place.
    if state != NamesState::Undecided {
        connection.stream.decided = end;
    }
    settle(connections, slot, now_ns);
    lifetime::packet_names(connections, slot)
}
