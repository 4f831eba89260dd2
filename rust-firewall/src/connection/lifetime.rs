// SPDX-License-Identifier: GPL-2.0-or-later
//! Life of a connection: moves it from list to list, and removes it from the table.
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::StreamPut;
use crate::connection::types::{
    Connection, ConnectionCache, ConnectionCause, ConnectionKey, ConnectionList, Connections,
    Followed, FollowedKind, RequestsAwaited, LIST_COUNT, SLOT_NONE,
};
use crate::connection::{ids, share, stream, table};
use crate::names::{Names, NamesProtocol, NamesState};

const SECOND_NS: u64 = 1_000_000_000;
/// Timeout of the list Opening, like nf_conntrack_tcp_timeout_syn_sent.
const OPENING_NS: u64 = 120 * SECOND_NS;
/// Timeout of the lists Known and Silent, like nf_conntrack_tcp_timeout_established.
const KNOWN_NS: u64 = 432_000 * SECOND_NS;
/// Timeout of the list Datagrams, like the former default of nf_conntrack_udp_timeout_stream.
const DATAGRAMS_NS: u64 = 180 * SECOND_NS;
/// Timeout of the list Closing, like nf_conntrack_tcp_timeout_fin_wait.
const CLOSING_NS: u64 = 120 * SECOND_NS;
/// Minimum time between two moves of a connection to the end of its list.
const TOUCH_NS: u64 = SECOND_NS;
/// Minimum time between two checks for expired connections, unless a check left some of them.
const EXPIRE_NS: u64 = 10_000_000;
/// Maximum number of connections of a list that expire for one packet.
const EXPIRE_MAX: u32 = 16;
/// Divisor for evictions from a full table: the list to evict from is the first of LISTS (one list for each state of
/// connections) with more than 1/SHARE of the table.
const SHARE: u32 = 16;
/// Number of oldest connections of a list among which a connection is chosen for eviction, by the number of its
/// client's connections.
const SAMPLE: u32 = 16;
/// Maximum number of connections whose memory is freed to store one piece of another connection's stream.
const RECLAIM_MAX: u32 = 16;

const LISTS: [ConnectionList; LIST_COUNT] = [
    ConnectionList::Opening,
    ConnectionList::Showing,
    ConnectionList::Silent,
    ConnectionList::Closing,
    ConnectionList::Settling,
    ConnectionList::Datagrams,
    ConnectionList::Known,
];

fn timeout_ns(connections: &Connections, list: ConnectionList) -> u64 {
    match list {
        ConnectionList::Opening => OPENING_NS,
        ConnectionList::Showing | ConnectionList::Settling => connections.settings.hello_timeout_ns,
        ConnectionList::Known | ConnectionList::Silent => KNOWN_NS,
        ConnectionList::Datagrams => DATAGRAMS_NS,
        ConnectionList::Closing => CLOSING_NS,
    }
}

/// Returns the oldest connection of a list, or SLOT_NONE.
fn oldest(connections: &Connections, list: ConnectionList) -> u32 {
    let head = connections.table.lists.get(list as usize);
    head.map_or(SLOT_NONE, |head| head.oldest)
}

/// Returns the number of connections in a list.
fn count_of(connections: &Connections, list: ConnectionList) -> u32 {
    let head = connections.table.lists.get(list as usize);
    head.map_or(0, |head| head.count)
}

/// Removes a connection from the table and frees its blocks.
fn forget(connections: &mut Connections, slot: u32) {
    let connection = table::at(&mut connections.table, slot);
    stream::release(&mut connection.stream, &mut connections.pool);
    ids::remove(&mut connections.table, slot);
    share::leave(&mut connections.table, slot);
    table::remove(&mut connections.table, slot);
}

/// Returns the hashes by which a removed connection is recorded, if its server may continue it later: those of its key
/// and of its QUIC connection id. That is true for UDP, and for TCP with data on the SYN: a repeated SYN can continue
/// it. Other TCP needs a new SYN, which a server does not answer while it still has the connection.
pub fn removal_hashes(connections: &mut Connections, slot: u32) -> [Option<u64>; 2] {
    let connection = table::at(&mut connections.table, slot);
    let key = connection.key;
    if !connection.is_udp && !connection.syn_data {
        return [None; 2];
    }
    let hash = table::hash(&connections.table, &key);
    [Some(hash), ids::hash(&mut connections.table, slot)]
}

/// Removes a connection from the table, and records it if its server may continue it.
fn abandon(connections: &mut Connections, slot: u32, now_ns: u64) {
    for hash in removal_hashes(connections, slot).into_iter().flatten() {
        table::bury(&mut connections.table, hash, now_ns);
    }
    forget(connections, slot);
}

/// Frees the stored bytes of a client, and moves its connection to the list Closing if it is closed, otherwise to
/// Datagrams (UDP) or Known (TCP).
pub fn settle(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    stream::release(&mut connection.stream, &mut connections.pool);
    let list = if connection.closed {
        ConnectionList::Closing
    } else if connection.is_udp {
        ConnectionList::Datagrams
    } else {
        ConnectionList::Known
    };
    table::move_to(&mut connections.table, slot, list, now_ns);
}

/// Returns true if the stored bytes of a connection contain the beginning of another DNS query or HTTP request.
fn has_begun(connection: &Connection) -> bool {
    let stream = &connection.stream;
    let awaited = connection.requests.awaited;
    let goes_on = connection.names.protocol == NamesProtocol::Http
        && matches!(awaited, RequestsAwaited::Header | RequestsAwaited::Chunk);
    if connection.is_dns {
        return stream::has_more(stream);
    }
    let last = stream
        .spans
        .iter()
        .take(stream.span_count.into())
        .next_back();
    goes_on && last.is_some_and(|last| u64::from(last.end) > connection.requests.next)
}

/// Settles a connection although its server may not have acknowledged all bytes. If another query or request has begun,
/// it is lost, and the connection becomes unreadable.
fn settle_early(connections: &mut Connections, slot: u32, cause: ConnectionCause, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    if has_begun(connection) {
        make_unreadable(connections, slot, cause, now_ns);
    } else {
        settle(connections, slot, now_ns);
    }
}

fn count_unreadable(connections: &mut Connections, cause: ConnectionCause) {
    if let Some(count) = connections.counts.unreadable.get_mut(cause as usize) {
        *count += 1;
    }
}

/// Handles the timeout of a connection: settles it if it is in the list Settling, otherwise removes it from the table.
/// In the list Showing its names are counted as unreadable before the removal.
fn time_out(connections: &mut Connections, slot: u32, now_ns: u64) {
    match table::at(&mut connections.table, slot).list {
        ConnectionList::Showing => {
            count_unreadable(connections, ConnectionCause::Timeout);
            abandon(connections, slot, now_ns);
        }
        ConnectionList::Settling => {
            settle_early(connections, slot, ConnectionCause::Timeout, now_ns);
        }
        _ => forget(connections, slot),
    }
}

/// Handles the timeouts of expired connections, at most EXPIRE_MAX of each list.
pub fn expire(connections: &mut Connections, now_ns: u64) {
    if now_ns < connections.expire_ns {
        return;
    }
    connections.expire_ns = now_ns + EXPIRE_NS;
    for list in LISTS {
        let timeout_ns = timeout_ns(connections, list);
        for looked in 0..=EXPIRE_MAX {
            let slot = oldest(connections, list);
            let since_ns = table::at(&mut connections.table, slot).since_ns;
            if slot == SLOT_NONE || now_ns.saturating_sub(since_ns) < timeout_ns {
                break;
            }
            if looked == EXPIRE_MAX {
                connections.expire_ns = now_ns;
                break;
            }
            time_out(connections, slot, now_ns);
        }
    }
}

/// Returns the list from which a connection is evicted: the first list, in the order of LISTS, that has more than
/// 1/SHARE of the table. So a client that opens many connections does not evict the few known connections.
fn list_to_evict(connections: &Connections) -> ConnectionList {
    let share = connections.table.limit / SHARE;
    // There are fewer than SHARE lists, so in a full table at least one list exceeds 1/SHARE.
    let has_more = |list: &&ConnectionList| count_of(connections, **list) > share;
    LISTS.iter().find(has_more).copied().unwrap_or_default()
}

/// Counts an eviction, and removes the connection.
fn evict(connections: &mut Connections, slot: u32, now_ns: u64) {
    let list = table::at(&mut connections.table, slot).list;
    if let Some(evicted) = connections.counts.evicted.get_mut(list as usize) {
        *evicted += 1;
    }
    abandon(connections, slot, now_ns);
}

/// Returns the connection to evict for a new connection of a client. It is one of the SAMPLE oldest connections of the
/// list to evict from: the one whose client has the most connections. If the new connection's client has at least as
/// many connections, its own oldest connection is evicted instead.
/// - place: index of the new connection's client in the table's `shares`.
fn slot_to_evict(connections: &mut Connections, place: u32) -> u32 {
    let mut slot = oldest(connections, list_to_evict(connections));
    let (mut found, mut most) = (slot, 0);
    for _ in 0..SAMPLE {
        if slot == SLOT_NONE {
            break;
        }
        let connection = table::at(&mut connections.table, slot);
        let (newer, share) = (connection.newer, connection.share);
        let count = share::count(&connections.table, share);
        if count > most {
            (found, most) = (slot, count);
        }
        slot = newer;
    }
    let is_own = table::at(&mut connections.table, found).share == place;
    match share::count(&connections.table, place) {
        own if own >= most && !is_own => share::oldest(&connections.table, place),
        _ => found,
    }
}

/// Evicts a connection if the table is full, to make room for a new connection of a client.
/// - place: index of the client's share (list of connections, see `Share`).
fn make_room(connections: &mut Connections, place: u32, now_ns: u64) {
    if table::is_full(&connections.table) {
        let slot = slot_to_evict(connections, place);
        evict(connections, slot, now_ns);
    }
}

/// Adds a connection that is not in the table, and evicts another connection if the table is full. Returns the new
/// connection's slot.
/// - client_low: true if the client is the lower end (by address and port).
/// - since_ns: time when the connection was used last, or entered its list, here or in another process's table.
pub fn add(
    connections: &mut Connections,
    key: &ConnectionKey,
    hash: u64,
    client_low: bool,
    list: ConnectionList,
    since_ns: u64,
    now_ns: u64,
) -> u32 {
    let place = share::place(&connections.table, key, client_low);
    make_room(connections, place, now_ns);
    let slot = table::add(&mut connections.table, key, hash, list, since_ns);
    table::at(&mut connections.table, slot).client_low = client_low;
    share::enter(&mut connections.table, slot, place);
    slot
}

/// Begins to follow a connection that is not in the table. Returns its slot.
/// - client_low: true if the client is the lower end (by address and port).
pub fn open(
    connections: &mut Connections,
    key: &ConnectionKey,
    hash: u64,
    client_low: bool,
    list: ConnectionList,
    now_ns: u64,
) -> u32 {
    connections.counts.opened += 1;
    let slot = add(connections, key, hash, client_low, list, now_ns, now_ns);
    let connection = table::at(&mut connections.table, slot);
    connection.names.state = NamesState::Undecided;
    slot
}

/// Removes all connections from the table.
pub fn forget_all(connections: &mut Connections) {
    for list in LISTS {
        while count_of(connections, list) > 0 {
            let slot = oldest(connections, list);
            forget(connections, slot);
        }
    }
}

/// Removes all connections from the table, and records those that their servers may continue (`removal_hashes`).
pub fn abandon_all(connections: &mut Connections, now_ns: u64) {
    for list in LISTS {
        while count_of(connections, list) > 0 {
            let slot = oldest(connections, list);
            abandon(connections, slot, now_ns);
        }
    }
}

/// Records the use of a connection. In the lists Opening, Showing and Settling this does not extend the time limit.
pub fn touch(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let list = connection.list;
    let is_aged = matches!(
        list,
        ConnectionList::Known
            | ConnectionList::Silent
            | ConnectionList::Datagrams
            | ConnectionList::Closing
    );
    if is_aged && now_ns.saturating_sub(connection.since_ns) >= TOUCH_NS {
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Records that both ends have opened a connection.
pub fn establish(connections: &mut Connections, slot: u32, now_ns: u64) {
    if table::at(&mut connections.table, slot).list == ConnectionList::Opening {
        let list = ConnectionList::Silent;
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Records that an end has closed a connection.
pub fn close(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    connection.closed = true;
    let rests = matches!(
        connection.list,
        ConnectionList::Opening | ConnectionList::Silent | ConnectionList::Known
    );
    if rests {
        table::move_to(
            &mut connections.table,
            slot,
            ConnectionList::Closing,
            now_ns,
        );
    }
}

/// Returns names without content, in the given state, that belong to one packet only.
fn alone(connections: &mut Connections, state: NamesState) -> Followed {
    connections.alone.state = state;
    connections.alone.protocol = NamesProtocol::Other;
    connections.alone.host_length = 0;
    connections.alone.alpn_length = 0;
    connections.alone.method_length = 0;
    connections.alone.ech = false;
    connections.alone.version = 0;
    connections.alone.dns_type = 0;
    Followed {
        kind: FollowedKind::Names,
        slot: SLOT_NONE,
    }
}

/// Returns unreadable names for a packet, whatever the names of its connection are.
pub fn packet_unreadable(connections: &mut Connections, cause: ConnectionCause) -> Followed {
    count_unreadable(connections, cause);
    alone(connections, NamesState::Unreadable)
}

/// Returns undecided names for a packet without data, whatever the names of its connection are.
pub fn packet_undecided(connections: &mut Connections) -> Followed {
    alone(connections, NamesState::Undecided)
}

/// Returns known names without content for a packet that needs no connection.
pub fn packet_nameless(connections: &mut Connections) -> Followed {
    alone(connections, NamesState::Known)
}

/// Returns true if the policy of a generation has refused a connection, or if its client's bytes are an evasion.
pub fn is_denied(connections: &mut Connections, slot: u32, generation: u64) -> bool {
    let connection = table::at(&mut connections.table, slot);
    connection.evasion || connection.denied == generation && generation != 0
}

/// Returns the names of a packet's connection, or Denied if its client's bytes are an evasion.
pub fn packet_names(connections: &mut Connections, slot: u32) -> Followed {
    let kind = match table::at(&mut connections.table, slot).evasion {
        true => FollowedKind::Denied,
        false => FollowedKind::Names,
    };
    Followed { kind, slot }
}

/// Makes the names of a connection unreadable for good.
pub fn make_unreadable(
    connections: &mut Connections,
    slot: u32,
    cause: ConnectionCause,
    now_ns: u64,
) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    if connection.names.state != NamesState::Unreadable {
        connection.names = Names {
            state: NamesState::Unreadable,
            ..Names::default()
        };
        connection.cache = ConnectionCache::default();
        connection.may_retry = false;
        connection.may_switch = false;
        connection.accepted = false;
        connection.closed = true;
        count_unreadable(connections, cause);
        settle(connections, slot, now_ns);
    }
    packet_names(connections, slot)
}

/// Denies a connection for good because its client sent different bytes for the same position, or different names in a
/// second ClientHello.
pub fn deny_evasion(connections: &mut Connections, slot: u32, now_ns: u64) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    connection.evasion = true;
    connection.is_reset = false;
    connection.closed = true;
    connections.counts.evasion += 1;
    settle(connections, slot, now_ns);
    packet_names(connections, slot)
}

/// Records that a policy refused a connection.
/// - tells: true if both ends of a TCP connection get a RST.
pub fn deny(connections: &mut Connections, slot: u32, generation: u64, tells: bool) {
    let connection = table::at(&mut connections.table, slot);
    connection.is_reset = tells && !connection.is_udp;
    if connection.denied == generation {
        return;
    }
    connections.counts.denied += 1;
    connection.denied = generation;
    connection.closed = true;
    let list = connection.list;
    if list != ConnectionList::Settling {
        let list = ConnectionList::Closing;
        table::move_to(&mut connections.table, slot, list, connections.now_ns);
    }
}

/// Records that a connection's names are known, and moves it to the list Settling, in which the client's bytes are
/// kept.
/// - decided: end of the bytes that the names were read from, as an offset in the stream.
pub fn decide(connections: &mut Connections, slot: u32, decided: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    connection.cache = ConnectionCache::default();
    connection.stream.decided = decided;
    let protocol = connection.names.protocol;
    if let Some(count) = connections.counts.decided.get_mut(protocol as usize) {
        *count += 1;
    }
    table::move_to(
        &mut connections.table,
        slot,
        ConnectionList::Settling,
        now_ns,
    );
}

/// Records that a client has begun to send its names, or another query or request. This starts the time limit, unless
/// it runs already.
pub fn start_showing(connections: &mut Connections, slot: u32, now_ns: u64) {
    let list = ConnectionList::Showing;
    if table::at(&mut connections.table, slot).list != list {
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Frees memory, but not that of the connection in `slot`: evicts the oldest connection of the list Showing, or else
/// settles the oldest of the list Settling. Returns false if neither list begins with another connection.
fn reclaim(connections: &mut Connections, slot: u32, now_ns: u64) -> bool {
    let showing = oldest(connections, ConnectionList::Showing);
    let settling = oldest(connections, ConnectionList::Settling);
    if ![SLOT_NONE, slot].contains(&showing) {
        evict(connections, showing, now_ns);
        return true;
    }
    if ![SLOT_NONE, slot].contains(&settling) {
        settle_early(connections, settling, ConnectionCause::Pool, now_ns);
        return true;
    }
    false
}

/// Stores a piece of a client's bytes. If the pool has no free block, other connections are evicted or settled to free
/// memory. Returns `Pool` only if that does not free enough.
pub fn store(
    connections: &mut Connections,
    slot: u32,
    offset: u32,
    bytes: &[u8],
    now_ns: u64,
) -> StreamPut {
    for _ in 0..RECLAIM_MAX {
        let connection = table::at(&mut connections.table, slot);
        let put = stream::insert(&mut connection.stream, &mut connections.pool, offset, bytes);
        if put != StreamPut::Pool || !reclaim(connections, slot, now_ns) {
            return put;
        }
    }
    StreamPut::Pool
}

/// Handles bytes of a client that were not stored. If different bytes are stored for their position (`Conflict`), the
/// connection is denied for good; otherwise its names become unreadable.
/// - put: result of the attempt to store the bytes; not `Kept`.
pub fn refuse(connections: &mut Connections, slot: u32, put: StreamPut, now_ns: u64) -> Followed {
    match put {
        StreamPut::Conflict => deny_evasion(connections, slot, now_ns),
        StreamPut::Gaps => make_unreadable(connections, slot, ConnectionCause::Gaps, now_ns),
        StreamPut::Late => make_unreadable(connections, slot, ConnectionCause::Ambiguous, now_ns),
        _ => make_unreadable(connections, slot, ConnectionCause::Pool, now_ns),
    }
}
