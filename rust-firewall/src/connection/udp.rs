// SPDX-License-Identifier: GPL-2.0-or-later
//! UDP connections: QUIC at any port except that of DNS (RFC 9000, RFC 9001, RFC 9369), and DNS queries, each of which
//! is independent.
//!
//! Theory of operation: a server finds the connection of a packet by the packet's connection id, and ignores the
//! packet's source, and the firewall can't know which packets it accepted. So Initial packets with the connection id of
//! another connection are unreadable. The CRYPTO frames of all Initial packets between two ends are one stream,
//! whatever their connection id: after Retry a client sends the same bytes again, and different bytes for the same
//! position are an evasion. A server may remember connections that the firewall has forgotten: for a while such a
//! connection is unreadable. A DNS server also reads queries that look like QUIC, so QUIC is recognised at other ports
//! only, even if the server began with a packet of QUIC. At the DNS port a long header of QUIC is an unreadable query,
//! because it has more than one question.
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::{StreamPut, BYTES_MAX};
use crate::connection::types::{
    Connection, ConnectionCause, ConnectionChecksum, ConnectionInput, ConnectionKey,
    ConnectionList, Connections, Followed, FollowedKind, SLOT_NONE,
};
use crate::connection::{checksum, direction, ids, lifetime, stream, table};
use crate::names::quic::{QuicFrameKind, QuicHeader, QuicKeys, QuicKind};
use crate::names::{dns, hello, quic, Names, NamesProtocol, NamesState};
use crate::packet::{Packet, UDP_HEADER_BYTES, UDP_LENGTH_OFFSET};

/// Port of DNS servers.
const DNS_PORT: u16 = 53;
/// Number of bytes of a datagram that show whether it begins with a long header, and which version it has.
const HEADER_BYTES: usize = 5;
/// Maximum number of QUIC packets read in a datagram.
const PACKETS_MAX: u32 = 8;
/// Maximum number of QUIC packets read in one packet of several datagrams (UDP_MAX_SEGMENTS of linux/udp.h was 64, and
/// is 128 in newer kernels).
const SEGMENTED_PACKETS_MAX: u32 = 64;

/// Parsed UDP datagram, or several datagrams that the kernel has joined to one packet.
struct Datagram<'a> {
    key: ConnectionKey,
    /// Hash of the key in the table; set by `follow`.
    hash: u64,
    /// True if the datagram comes from the lower end (by address and port).
    is_low: bool,
    source_port: u16,
    destination_port: u16,
    /// Copied part of the datagram's data.
    data: &'a [u8],
    /// Length of the datagram's data in bytes, copied or not.
    length: u32,
    input: ConnectionInput,
    now_ns: u64,
}

/// Parses a packet's UDP header; None if the header was not copied or is malformed. The length in the header limits the
/// data. Only in a packet with several datagrams (GSO), a length that is too short is ignored, because the kernel sends
/// all bytes (__udp_gso_segment).
fn datagram_of<'a>(packet: &Packet<'a>, input: &ConnectionInput) -> Option<Datagram<'a>> {
    let start = packet.l4_offset as usize;
    let header = packet.bytes.get(start..start + UDP_HEADER_BYTES as usize)?;
    let length = header.get(UDP_LENGTH_OFFSET..)?.first_chunk()?;
    let available = packet.end.saturating_sub(packet.l4_offset);
    // 0 means that the length exceeds the field.
    let told = match u32::from(u16::from_be_bytes(*length)) {
        0 => available,
        told if input.segmented => told.max(available),
        told => told,
    };
    if told < UDP_HEADER_BYTES || told > available {
        return None;
    }
    let length = told - UDP_HEADER_BYTES;
    let data = packet.bytes.get(start + UDP_HEADER_BYTES as usize..)?;
    let (key, is_low) = table::key(packet);
    Some(Datagram {
        key,
        hash: 0,
        is_low,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        data: data.get(..length as usize).unwrap_or(data),
        length,
        input: *input,
        now_ns: input.now_ns,
    })
}

/// Returns the destination connection id of a packet.
fn id_of<'a>(datagram: &Datagram<'a>, header: &QuicHeader) -> &'a [u8] {
    let start = header.connection as usize;
    let id = datagram
        .data
        .get(start..start + usize::from(header.connection_bytes));
    id.unwrap_or_default()
}

/// Stores the keys that decrypt a client's Initial packets, and the connection id that they are derived from. The
/// previous id is given up.
fn set_keys(
    connections: &mut Connections,
    slot: u32,
    keys: &QuicKeys,
    datagram: &Datagram,
    header: &QuicHeader,
) {
    ids::bury(&mut connections.table, slot, datagram.now_ns);
    ids::remove(&mut connections.table, slot);
    ids::add(&mut connections.table, slot, id_of(datagram, header));
    table::at(&mut connections.table, slot).keys = *keys;
}

/// Decrypts an Initial packet of a connection that is followed. Tries the connection's keys or, if they are for another
/// QUIC version (RFC 9368), keys derived for the packet's version from the connection's id. Then tries keys from the
/// packet's own connection id, which a client uses after Retry.
/// - is_others: true if the packet's connection id belongs to another connection, or was given up or forgotten
///   recently. Then keys from this id can decrypt the packet, but are not stored.
/// - plain: out: the packet's frames.
/// - Returns the number of bytes of the frames; 0 if the packet can't be decrypted.
fn open_known(
    connections: &mut Connections,
    slot: u32,
    datagram: &Datagram,
    header: &QuicHeader,
    is_others: bool,
    plain: &mut [u8; hello::BYTES_MAX],
) -> u32 {
    let connection = table::at(&mut connections.table, slot);
    let opener = &connections.opener;
    let mut keys = connection.keys;
    if keys.version != header.version {
        let of_id = QuicHeader {
            connection: 0,
            connection_bytes: connection.id_bytes,
            ..*header
        };
        keys = quic::derive(opener, &connection.id, &of_id);
    }
    let bytes = quic::open(opener, &mut keys, datagram.data, header, plain);
    if bytes > 0 {
        if connection.keys.version == keys.version {
            connection.keys = keys;
        }
        return bytes;
    }
    keys = quic::derive(opener, datagram.data, header);
    let bytes = quic::open(opener, &mut keys, datagram.data, header, plain);
    if bytes > 0 && !is_others {
        set_keys(connections, slot, &keys, datagram, header);
    }
    bytes
}

/// Decrypts an Initial packet whose ends have no followed connection, and begins to follow the connection.
/// - is_others: true if the packet's connection id belongs to another connection, or was given up or forgotten
///   recently. Then the packet's connection is not followed, unless a connection between its ends was forgotten
///   recently, which makes it unreadable.
/// - plain: out: the packet's frames.
/// - Returns the connection's slot, or SLOT_NONE, and the number of bytes of the frames; 0 bytes if the connection is
///   not followed.
fn open_first(
    connections: &mut Connections,
    datagram: &Datagram,
    header: &QuicHeader,
    is_others: bool,
    plain: &mut [u8; hello::BYTES_MAX],
) -> (u32, u32) {
    let now_ns = datagram.now_ns;
    let opener = &connections.opener;
    let mut keys = quic::derive(opener, datagram.data, header);
    let bytes = quic::open(opener, &mut keys, datagram.data, header, plain);
    if bytes == 0 {
        return (SLOT_NONE, 0);
    }
    let is_buried = table::is_buried(&connections.table, datagram.hash, now_ns);
    if is_others && !is_buried {
        return (SLOT_NONE, 0);
    }
    let list = ConnectionList::Showing;
    let (key, hash) = (&datagram.key, datagram.hash);
    let slot = lifetime::open(connections, key, hash, datagram.is_low, list, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.is_udp = true;
    direction::bind(connection, &datagram.input);
    set_keys(connections, slot, &keys, datagram, header);
    if is_buried {
        lifetime::make_unreadable(connections, slot, ConnectionCause::Ambiguous, now_ns);
    }
    (slot, bytes)
}

/// Stores the bytes of a CRYPTO frame. Returns false if the stored bytes were freed, so that the new bytes can't be
/// compared with them.
fn store_crypto(
    connections: &mut Connections,
    slot: u32,
    offset: u64,
    bytes: &[u8],
    now_ns: u64,
) -> bool {
    let connection = table::at(&mut connections.table, slot);
    if connection.evasion || connection.names.state == NamesState::Unreadable {
        return true;
    }
    if connection.stream.let_go {
        return false;
    }
    let put = match offset + bytes.len() as u64 <= u64::from(BYTES_MAX) {
        true => lifetime::store(connections, slot, offset as u32, bytes, now_ns),
        false => StreamPut::Gaps,
    };
    if put != StreamPut::Kept {
        lifetime::refuse(connections, slot, put, now_ns);
    }
    true
}

/// Makes a connection's names unreadable, even if they were already known.
fn give_up(connections: &mut Connections, slot: u32, now_ns: u64) {
    table::at(&mut connections.table, slot).names.state = NamesState::Undecided;
    lifetime::make_unreadable(connections, slot, ConnectionCause::Parse, now_ns);
}

/// Reads the gathered bytes after the first ClientHello of a connection: a second ClientHello, with which the client
/// responds to HelloRetryRequest (RFC 8446, section 4.1.4). Different names in it are an evasion, because servers use
/// them, too.
/// - end: end of the gathered bytes.
fn parse_second(connections: &mut Connections, slot: u32, end: u32, now_ns: u64) {
    let mut left = connections.gathered.get(..end as usize).unwrap_or_default();
    loop {
        left = left.get(hello::length(left) as usize..).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        let mut again = Names::default();
        let first = &table::at(&mut connections.table, slot).names;
        match hello::parse(left, NamesProtocol::Quic, &mut again) {
            NamesState::Known if hello::is_same(first, &again) => {}
            NamesState::Known => {
                lifetime::deny_evasion(connections, slot, now_ns);
                return;
            }
            NamesState::Undecided if end < BYTES_MAX => return,
            _ => return give_up(connections, slot, now_ns),
        }
    }
}

/// Reads the available bytes of a connection's ClientHello, and the bytes after it.
fn parse(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let end = stream::prefix(&connection.stream);
    let gathered = &mut connections.gathered;
    stream::gather(
        &connection.stream,
        &mut connections.pool,
        0,
        end,
        &mut gathered[..],
    );
    let bytes = gathered.get(..end as usize).unwrap_or_default();
    if connection.names.state == NamesState::Undecided {
        match hello::parse(bytes, NamesProtocol::Quic, &mut connection.names) {
            NamesState::Known => lifetime::decide(connections, slot, end, now_ns),
            NamesState::Undecided if end < BYTES_MAX => return,
            _ => return give_up(connections, slot, now_ns),
        }
    }
    parse_second(connections, slot, end, now_ns);
}

/// Reads the frames of an Initial packet. Returns false if a frame is unreadable.
fn follow_frames(connections: &mut Connections, slot: u32, plain: &[u8], now_ns: u64) -> bool {
    let before = stream::prefix(&table::at(&mut connections.table, slot).stream);
    let mut is_read = true;
    let mut at = 0;
    while (at as usize) < plain.len() && is_read {
        let frame = quic::frame(plain, at);
        if frame.kind == QuicFrameKind::Crypto {
            let start = frame.data as usize;
            let bytes = plain.get(start..start + frame.data_bytes as usize);
            let bytes = bytes.unwrap_or_default();
            is_read = store_crypto(connections, slot, frame.offset, bytes, now_ns);
        }
        is_read = is_read && frame.kind != QuicFrameKind::Bad && frame.next > at;
        at = frame.next;
    }
    let connection = table::at(&mut connections.table, slot);
    let has_grown = stream::prefix(&connection.stream) > before;
    if has_grown && connection.names.state != NamesState::Unreadable && !connection.evasion {
        parse(connections, slot, now_ns);
    }
    is_read
}

/// Returns the possible start of the next packet in a packet of several datagrams (UDP_SEGMENT): the next byte that
/// looks like a long header of a supported version; the end if there is none. The kernel does not report the borders,
/// and the length in an earlier packet may be invalid for its receiver.
fn next_packet(data: &[u8], at: u32) -> u32 {
    let windows = data.get(at as usize..).unwrap_or_default().windows(5);
    for (place, window) in (at..).zip(windows) {
        if let &[0x80..=0xff, a, b, c, d] = window {
            if quic::is_understood(u32::from_be_bytes([a, b, c, d])) {
                return place;
            }
        }
    }
    data.len() as u32
}

/// Returns the maximum number of QUIC packets that are read in a datagram.
fn packets_max(segmented: bool) -> u32 {
    match segmented {
        true => SEGMENTED_PACKETS_MAX,
        false => PACKETS_MAX,
    }
}

/// Returns the possible start of a datagram's first packet.
fn first_packet(datagram: &Datagram, segmented: bool) -> u32 {
    match segmented {
        true => next_packet(datagram.data, 0),
        false => 0,
    }
}

/// Returns the offset at which the next packet may begin, after the packet with a given header.
fn packet_behind(datagram: &Datagram, segmented: bool, header: &QuicHeader) -> u32 {
    match segmented {
        true => next_packet(datagram.data, header.start + 1),
        false => header.end,
    }
}

/// Returns true if a datagram has a Handshake packet.
fn has_handshake(datagram: &Datagram, segmented: bool) -> bool {
    let mut at = first_packet(datagram, segmented);
    for _ in 0..packets_max(segmented) {
        let header = quic::header(datagram.data, at);
        at = packet_behind(datagram, segmented, &header);
        if header.kind == QuicKind::Handshake || at as usize >= datagram.data.len() {
            return header.kind == QuicKind::Handshake;
        }
    }
    false
}

/// Reads an Initial packet. If its connection is not followed, begins to follow it. Returns the connection's slot, or
/// SLOT_NONE, and true if the packet was read. The second value is false if the packet is unreadable, or if its
/// connection id belongs to another connection, or was given up or forgotten recently.
fn follow_initial(
    connections: &mut Connections,
    slot: u32,
    datagram: &Datagram,
    header: &QuicHeader,
    plain: &mut [u8; hello::BYTES_MAX],
) -> (u32, bool) {
    let now_ns = datagram.now_ns;
    let is_others = ids::is_taken(&connections.table, id_of(datagram, header), slot, now_ns);
    let (slot, bytes) = match slot {
        SLOT_NONE => open_first(connections, datagram, header, is_others, plain),
        slot => {
            let bytes = open_known(connections, slot, datagram, header, is_others, plain);
            (slot, bytes)
        }
    };
    let frames = plain.get(..bytes as usize).unwrap_or_default();
    let is_read = bytes > 0 && follow_frames(connections, slot, frames, now_ns);
    (slot, is_read && !is_others)
}

/// Reads the packets of a client's datagram. Returns its connection's slot, and false if a packet is unreadable or
/// there are too many packets.
fn follow_packets(
    connections: &mut Connections,
    mut slot: u32,
    datagram: &Datagram,
    segmented: bool,
    plain: &mut [u8; hello::BYTES_MAX],
) -> (u32, bool) {
    let mut is_read = true;
    let mut at = first_packet(datagram, segmented);
    for _ in 0..packets_max(segmented) {
        let header = quic::header(datagram.data, at);
        at = packet_behind(datagram, segmented, &header);
        if header.kind == QuicKind::Initial {
            let is_taken;
            (slot, is_taken) = follow_initial(connections, slot, datagram, &header, plain);
            is_read = is_read && is_taken;
        }
        is_read = is_read && !matches!(header.kind, QuicKind::Bad | QuicKind::Unknown);
        if at as usize >= datagram.data.len() {
            return (slot, is_read);
        }
    }
    (slot, false)
}

/// Handles a client's QUIC datagram.
fn go_on(
    connections: &mut Connections,
    slot: u32,
    datagram: &Datagram,
    segmented: bool,
) -> Followed {
    let mut room = std::mem::take(&mut connections.plain);
    let Ok(plain) = room.as_mut_slice().try_into() else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Pool);
    };
    let (slot, is_read) = follow_packets(connections, slot, datagram, segmented, plain);
    connections.plain = room;
    if slot == SLOT_NONE {
        return match is_read {
            true => lifetime::packet_nameless(connections),
            false => lifetime::packet_unreadable(connections, ConnectionCause::Parse),
        };
    }
    lifetime::touch(connections, slot, datagram.now_ns);
    let connection = table::at(&mut connections.table, slot);
    if is_read || connection.evasion || connection.names.state == NamesState::Unreadable {
        return lifetime::packet_names(connections, slot);
    }
    lifetime::packet_unreadable(connections, ConnectionCause::Parse)
}

/// Handles a DNS query, which is independent of other queries. A packet of several datagrams is unreadable, because its
/// queries can't be separated.
fn ask(connections: &mut Connections, datagram: &Datagram, segmented: bool) -> Followed {
    if segmented || dns::query(datagram.data, &mut connections.alone) != NamesState::Known {
        return lifetime::packet_unreadable(connections, ConnectionCause::Parse);
    }
    let protocol = connections.alone.protocol;
    if let Some(count) = connections.counts.decided.get_mut(protocol as usize) {
        *count += 1;
    }
    Followed {
        kind: FollowedKind::Names,
        slot: SLOT_NONE,
    }
}

/// Handles a datagram whose content is not read. On a followed connection, a client's datagram with a long header of an
/// unsupported version is unreadable, since it may begin another connection. The followed connection keeps its names.
fn pass(connections: &mut Connections, slot: u32, datagram: &Datagram, kind: QuicKind) -> Followed {
    if kind == QuicKind::Unknown && datagram.source_port != DNS_PORT {
        connections.counts.unknown_version += 1;
    }
    if kind == QuicKind::Unknown && slot != SLOT_NONE {
        return lifetime::packet_unreadable(connections, ConnectionCause::Parse);
    }
    if slot == SLOT_NONE {
        return lifetime::packet_nameless(connections);
    }
    lifetime::touch(connections, slot, datagram.now_ns);
    lifetime::packet_names(connections, slot)
}

/// Returns true if a datagram comes in by another interface than its sender's, or if a server's datagram leaves by
/// another interface than the client's.
fn is_forged(connection: &Connection, datagram: &Datagram) -> bool {
    let (client, server) = (connection.client_interface, connection.server_interface);
    match connection.client_low == datagram.is_low {
        true => direction::is_foreign(connection, datagram.is_low, &datagram.input),
        false => !direction::answers(client, server, &datagram.input),
    }
}

/// Returns true if a datagram of either end shows that the server has a complete ClientHello of which the firewall
/// lacks a part.
fn is_answered(
    connections: &mut Connections,
    slot: u32,
    datagram: &Datagram,
    segmented: bool,
) -> bool {
    slot != SLOT_NONE
        && table::at(&mut connections.table, slot).names.state == NamesState::Undecided
        && has_handshake(datagram, segmented)
}

/// Handles a server's datagram, and stores the server's interface if it is unknown. If the names are known, a Handshake
/// packet shows that the server has the complete ClientHello (RFC 9001, section 4.1.4).
fn hear(connections: &mut Connections, slot: u32, datagram: &Datagram, segmented: bool) {
    let connection = table::at(&mut connections.table, slot);
    direction::bind_server(connection, &datagram.input);
    if connection.names.state == NamesState::Known && !connection.accepted {
        connection.accepted = has_handshake(datagram, segmented);
    }
}

/// Updates the QUIC connection of a UDP packet, or reads the packet's DNS query. Returns whether the packet has names
/// or is denied, and the slot of its connection.
pub fn follow(connections: &mut Connections, packet: &Packet, input: &ConnectionInput) -> Followed {
    let Some(mut datagram) = datagram_of(packet, input) else {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    };
    connections.is_low = datagram.is_low;
    datagram.hash = table::hash(&connections.table, &datagram.key);
    let slot = table::find(&connections.table, &datagram.key, datagram.hash);
    if slot != SLOT_NONE && lifetime::is_denied(connections, slot, input.generation) {
        lifetime::touch(connections, slot, input.now_ns);
        let kind = FollowedKind::Denied;
        return Followed { kind, slot };
    }
    if slot != SLOT_NONE && is_forged(table::at(&mut connections.table, slot), &datagram) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Interface);
    }
    if is_answered(connections, slot, &datagram, input.segmented) {
        let cause = ConnectionCause::Ambiguous;
        return lifetime::make_unreadable(connections, slot, cause, input.now_ns);
    }
    let is_servers = table::at(&mut connections.table, slot).client_low != datagram.is_low;
    let is_query = datagram.destination_port == DNS_PORT;
    if slot != SLOT_NONE && is_servers && !is_query {
        hear(connections, slot, &datagram, input.segmented);
        return pass(connections, slot, &datagram, QuicKind::Short);
    }
    let kind = quic::header(datagram.data, 0).kind;
    let is_quic = input.segmented || !matches!(kind, QuicKind::Short | QuicKind::Unknown);
    let is_cut = (datagram.data.len() as u32) < datagram.length;
    let is_unknown = is_cut && datagram.data.len() < HEADER_BYTES;
    if !(is_quic || is_query || is_unknown) {
        return pass(connections, slot, &datagram, kind);
    }
    if is_cut {
        return lifetime::packet_unreadable(connections, ConnectionCause::Cut);
    }
    let is_unsure = input.checksum == ConnectionChecksum::Unverified;
    let bytes = datagram.length + UDP_HEADER_BYTES;
    if is_unsure && !checksum::is_right(packet, bytes) {
        return lifetime::packet_unreadable(connections, ConnectionCause::Checksum);
    }
    match is_query {
        true => ask(connections, &datagram, input.segmented),
        false => go_on(connections, slot, &datagram, input.segmented),
    }
}

/// Returns true if a UDP packet goes to port 53, or begins like a long header of a supported QUIC version. Two adjacent
/// bytes may differ, because the kernel may write a checksum there later.
pub fn decides(packet: &Packet) -> bool {
    let start = (packet.l4_offset + UDP_HEADER_BYTES) as usize;
    let data = packet.bytes.get(start..).unwrap_or_default();
    packet.destination_port == DNS_PORT || quic::is_near(data)
}
