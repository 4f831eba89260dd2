// SPDX-License-Identifier: GPL-2.0-or-later
//! What becomes of a connection: from list to list, and out of the table.
#![deny(clippy::indexing_slicing)]

use crate::connection::stream::StreamPut;
use crate::connection::types::{
    Connection, ConnectionCache, ConnectionCause, ConnectionKey, ConnectionList, Connections,
    Followed, FollowedKind, RequestsAwaited, LIST_COUNT, SLOT_NONE,
};
use crate::connection::{ids, share, stream, table};
use crate::names::{Names, NamesProtocol, NamesState};

const SECOND_NS: u64 = 1_000_000_000;
/// As nf_conntrack_tcp_timeout_syn_sent.
const OPENING_NS: u64 = 120 * SECOND_NS;
/// As nf_conntrack_tcp_timeout_established.
const KNOWN_NS: u64 = 432_000 * SECOND_NS;
/// As nf_conntrack_udp_timeout_stream was for long.
const DATAGRAMS_NS: u64 = 180 * SECOND_NS;
/// As nf_conntrack_tcp_timeout_fin_wait.
const CLOSING_NS: u64 = 120 * SECOND_NS;
/// Minimum time between two moves of a connection to the end of its list.
const TOUCH_NS: u64 = SECOND_NS;
/// How often it is looked whose time is over.
const EXPIRE_NS: u64 = 10_000_000;
/// Connections of a list whose time is over that are looked at for one packet.
const EXPIRE_MAX: u32 = 16;
/// A list gives room to others if it holds more than this part of the table.
const SHARE: u32 = 16;
/// Connections of a list of which the one makes room whose client has most.
const SAMPLE: u32 = 16;
/// Connections that give their memory to another one for one piece of a stream.
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

/// The oldest connection of a list, or SLOT_NONE.
fn oldest(connections: &Connections, list: ConnectionList) -> u32 {
    let head = connections.table.lists.get(list as usize);
    head.map_or(SLOT_NONE, |head| head.oldest)
}

/// The number of connections of a list.
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

/// Remembers a connection that is to be forgotten and that its server may go on with. One of TCP needs another SYN then, which the server does not
/// answer while it has the connection; of UDP it must be remembered, and if its SYN had data, which come again with the same SYN.
pub fn bury(connections: &mut Connections, slot: u32, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    let key = connection.key;
    if connection.is_udp || connection.syn_data {
        table::bury(&mut connections.table, &key, now_ns);
        ids::bury(&mut connections.table, slot, now_ns);
    }
}

/// Removes a connection from the table whose server may continue it.
fn abandon(connections: &mut Connections, slot: u32, now_ns: u64) {
    bury(connections, slot, now_ns);
    forget(connections, slot);
}

/// Frees the stored bytes of a client and moves its connection to its final list.
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

/// Whether what is kept of a connection has the beginning of another query of DNS or request of HTTP.
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

/// Settles a connection whose server may not have all. A query or request that has begun is lost.
fn let_go(connections: &mut Connections, slot: u32, cause: ConnectionCause, now_ns: u64) {
    let connection = table::at(&mut connections.table, slot);
    if has_begun(connection) {
        unreadable(connections, slot, cause, now_ns);
    } else {
        settle(connections, slot, now_ns);
    }
}

fn count_unreadable(connections: &mut Connections, cause: ConnectionCause) {
    if let Some(count) = connections.counts.unreadable.get_mut(cause as usize) {
        *count += 1;
    }
}

/// Does what follows when a connection's time is over.
fn end_of(connections: &mut Connections, slot: u32, now_ns: u64) {
    match table::at(&mut connections.table, slot).list {
        ConnectionList::Showing => {
            count_unreadable(connections, ConnectionCause::Timeout);
            abandon(connections, slot, now_ns);
        }
        ConnectionList::Settling => {
            let_go(connections, slot, ConnectionCause::Timeout, now_ns);
        }
        _ => forget(connections, slot),
    }
}

/// Expires the connections whose time is over, so many at most.
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
            end_of(connections, slot, now_ns);
        }
    }
}

/// The list whose oldest connection makes room: the first of those in their order that has more than
/// its share, so that who opens connections without end takes room from few that are known.
fn list_to_evict(connections: &Connections) -> ConnectionList {
    let share = connections.table.limit / SHARE;
    // There are fewer lists than shares, so in a full table one of them has more.
    let has_more = |list: &&ConnectionList| count_of(connections, **list) > share;
    LISTS.iter().find(has_more).copied().unwrap_or_default()
}

/// Counts that a connection makes room for another one, and takes it out.
fn evict(connections: &mut Connections, slot: u32, now_ns: u64) {
    let list = table::at(&mut connections.table, slot).list;
    if let Some(evicted) = connections.counts.evicted.get_mut(list as usize) {
        *evicted += 1;
    }
    abandon(connections, slot, now_ns);
}

/// The connection that makes room for another one of a client: of the oldest of a list, one whose client has most. A client that has as many pays
/// with its own oldest one.
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

/// Makes room for another connection of a client.
/// - place: the client's.
fn make_room(connections: &mut Connections, place: u32, now_ns: u64) {
    if table::is_full(&connections.table) {
        let slot = slot_to_evict(connections, place);
        evict(connections, slot, now_ns);
    }
}

/// Adds a connection that the table has not, if need be in the place of another one. Returns its slot.
/// - client_low: the client is the lower one of both ends.
/// - since_ns: when it came to its list, here or in another table, or was used last.
pub fn add(
    connections: &mut Connections,
    key: &ConnectionKey,
    client_low: bool,
    list: ConnectionList,
    since_ns: u64,
    now_ns: u64,
) -> u32 {
    let place = share::place(&connections.table, key, client_low);
    make_room(connections, place, now_ns);
    let slot = table::add(&mut connections.table, key, list, since_ns);
    table::at(&mut connections.table, slot).client_low = client_low;
    share::enter(&mut connections.table, slot, place);
    slot
}

/// Begins to follow a connection that the table has not.
/// - client_low: the client is the lower one of both ends.
pub fn open(
    connections: &mut Connections,
    key: &ConnectionKey,
    client_low: bool,
    list: ConnectionList,
    now_ns: u64,
) -> u32 {
    connections.counts.opened += 1;
    let slot = add(connections, key, client_low, list, now_ns, now_ns);
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

/// Notes that a connection is used.
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

/// Notes that both ends have opened a connection.
pub fn stand(connections: &mut Connections, slot: u32, now_ns: u64) {
    if table::at(&mut connections.table, slot).list == ConnectionList::Opening {
        let list = ConnectionList::Silent;
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Notes that an end has closed a connection.
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

/// Says that a packet alone has names in some state.
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

/// A packet whose names are unreadable, whatever is known of its connection.
pub fn odd(connections: &mut Connections, cause: ConnectionCause) -> Followed {
    count_unreadable(connections, cause);
    alone(connections, NamesState::Unreadable)
}

/// A packet that opens a connection, of which nothing is known.
pub fn fresh(connections: &mut Connections) -> Followed {
    alone(connections, NamesState::Undecided)
}

/// A packet that has no name, and needs no connection.
pub fn other(connections: &mut Connections) -> Followed {
    alone(connections, NamesState::Known)
}

/// Whether all packets of a connection are denied.
pub fn is_denied(connections: &mut Connections, slot: u32, generation: u64) -> bool {
    let connection = table::at(&mut connections.table, slot);
    connection.evasion || connection.denied == generation && generation != 0
}

/// A packet with the names of its connection.
pub fn named(connections: &mut Connections, slot: u32) -> Followed {
    let kind = match table::at(&mut connections.table, slot).evasion {
        true => FollowedKind::Denied,
        false => FollowedKind::Names,
    };
    Followed { kind, slot }
}

/// Says that a connection's names can't be read, and never will.
pub fn unreadable(
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
    named(connections, slot)
}

/// Says that a client claimed different bytes for one place: its connection is denied for good.
pub fn evade(connections: &mut Connections, slot: u32, now_ns: u64) -> Followed {
    let connection = table::at(&mut connections.table, slot);
    connection.evasion = true;
    connection.is_reset = false;
    connection.closed = true;
    connections.counts.evasion += 1;
    settle(connections, slot, now_ns);
    named(connections, slot)
}

/// Notes that a policy refused a connection. tells: its ends are to know, which those of TCP can.
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

/// Notes that a connection's names are known. What the client sent up to there is kept until its
/// server has it.
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

/// Notes that a client has begun to show its names: for so long at most.
pub fn show(connections: &mut Connections, slot: u32, now_ns: u64) {
    let list = ConnectionList::Showing;
    if table::at(&mut connections.table, slot).list != list {
        table::move_to(&mut connections.table, slot, list, now_ns);
    }
}

/// Frees memory of another connection than that of a slot: the oldest one that shows its names is
/// evicted, else the oldest one that settles is let go. Returns whether there was one.
fn reclaim(connections: &mut Connections, slot: u32, now_ns: u64) -> bool {
    let showing = oldest(connections, ConnectionList::Showing);
    let settling = oldest(connections, ConnectionList::Settling);
    if ![SLOT_NONE, slot].contains(&showing) {
        evict(connections, showing, now_ns);
        return true;
    }
    if ![SLOT_NONE, slot].contains(&settling) {
        let_go(connections, settling, ConnectionCause::Pool, now_ns);
        return true;
    }
    false
}

/// Stores a piece of a client's bytes. If the pool is empty, other connections are evicted.
pub fn keep(
    connections: &mut Connections,
    slot: u32,
    offset: u32,
    bytes: &[u8],
    now_ns: u64,
) -> StreamPut {
    for _ in 0..RECLAIM_MAX {
        let connection = table::at(&mut connections.table, slot);
        let put = stream::put(&mut connection.stream, &mut connections.pool, offset, bytes);
        if put != StreamPut::Pool || !reclaim(connections, slot, now_ns) {
            return put;
        }
    }
    StreamPut::Pool
}

/// Says what became of bytes that were not kept.
pub fn refuse(connections: &mut Connections, slot: u32, put: StreamPut, now_ns: u64) -> Followed {
    match put {
        StreamPut::Conflict => evade(connections, slot, now_ns),
        StreamPut::Gaps => unreadable(connections, slot, ConnectionCause::Gaps, now_ns),
        _ => unreadable(connections, slot, ConnectionCause::Pool, now_ns),
    }
}
