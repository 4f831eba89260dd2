// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/lifetime.h"

#include "connection/ids.h"
#include "connection/share.h"
#include "connection/table.h"

#define SECOND_NS 1000000000ULL

enum {
    EXPIRE_MAX = 16, // maximum number of connections of a list that expire for one packet
    // Divisor for evictions from a full table: the list to evict from is the first of `lists` (one
    // list for each state of connections) with more than 1/SHARE of the table.
    SHARE = 16,
    // Number of oldest connections of a list among which a connection is chosen for eviction, by
    // the number of its client's connections.
    SAMPLE = 16,
    // Maximum number of connections whose memory is freed to store one piece of another
    // connection's stream.
    RECLAIM_MAX = 16,
};

// Timeout of the list Opening, like nf_conntrack_tcp_timeout_syn_sent.
#define OPENING_NS (120 * SECOND_NS)
// Timeout of the lists Known and Silent, like nf_conntrack_tcp_timeout_established.
#define KNOWN_NS (432000 * SECOND_NS)
// Timeout of the list Datagrams, like the former default of nf_conntrack_udp_timeout_stream.
#define DATAGRAMS_NS (180 * SECOND_NS)
// Timeout of the list Closing, like nf_conntrack_tcp_timeout_fin_wait.
#define CLOSING_NS (120 * SECOND_NS)
#define TOUCH_NS SECOND_NS // minimum time between two moves of a connection to the end of its list
// Minimum time between two checks for expired connections, unless a check left some of them.
#define EXPIRE_NS 10000000ULL

static const enum connection_list lists[CONNECTION_LIST_COUNT] = {
    CONNECTION_OPENING,  CONNECTION_SHOWING,   CONNECTION_SILENT, CONNECTION_CLOSING,
    CONNECTION_SETTLING, CONNECTION_DATAGRAMS, CONNECTION_KNOWN,
};

static uint64_t timeout_ns(const struct connections *connections, enum connection_list list) {
    switch (list) {
    case CONNECTION_OPENING:
        return OPENING_NS;
    case CONNECTION_SHOWING:
    case CONNECTION_SETTLING:
        return connections->settings.hello_timeout_ns;
    case CONNECTION_KNOWN:
    case CONNECTION_SILENT:
        return KNOWN_NS;
    case CONNECTION_DATAGRAMS:
        return DATAGRAMS_NS;
    default:
        return CLOSING_NS;
    }
}

/// Returns the oldest connection of a list, or CONNECTION_SLOT_NONE.
static uint32_t oldest(const struct connections *connections, enum connection_list list) {
    return connections->table.lists[list].oldest;
}

/// Returns the number of connections in a list.
static uint32_t count_of(const struct connections *connections, enum connection_list list) {
    return connections->table.lists[list].count;
}

/// Removes a connection from the table and frees its blocks.
static void forget(struct connections *connections, uint32_t slot) {
    stream_release(&connection_table_at(&connections->table, slot)->stream, &connections->pool);
    connection_ids_remove(&connections->table, slot);
    share_leave(&connections->table, slot);
    connection_table_remove(&connections->table, slot);
}

uint32_t lifetime_removal_hashes(struct connections *connections, uint32_t slot,
                                 uint64_t hashes[static 2]) {
    struct connection_table *table = &connections->table;
    const struct connection *connection = connection_table_at(table, slot);

    if (!connection->is_udp && !connection->syn_data)
        return 0;
    hashes[0] = connection_table_hash(table, &connection->key);
    return connection_ids_hash(table, slot, &hashes[1]) ? 2 : 1;
}

/// Removes a connection from the table, and records it if its server may continue it.
static void abandon(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    uint64_t hashes[2] = {0};
    const uint32_t count = lifetime_removal_hashes(connections, slot, hashes);

    for (uint32_t i = 0; i < count; i++)
        connection_table_bury(&connections->table, hashes[i], now_ns);
    forget(connections, slot);
}

void lifetime_settle(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);
    enum connection_list list = CONNECTION_KNOWN;

    stream_release(&connection->stream, &connections->pool);
    if (connection->closed)
        list = CONNECTION_CLOSING;
    else if (connection->is_udp)
        list = CONNECTION_DATAGRAMS;
    connection_table_move_to(&connections->table, slot, list, now_ns);
}

/// Returns true if the stored bytes of a connection contain the beginning of another DNS query or
/// HTTP request.
static bool has_begun(const struct connection *connection) {
    const struct stream *stream = &connection->stream;
    const bool goes_on = connection->names.protocol == NAMES_HTTP &&
                         (connection->requests.awaited == REQUESTS_HEADER ||
                          connection->requests.awaited == REQUESTS_CHUNK);

    if (connection->is_dns)
        return stream_has_more(stream);
    return goes_on && stream->span_count > 0 &&
           stream->spans[stream->span_count - 1].end > connection->requests.next;
}

/// Settles a connection although its server may not have acknowledged all bytes. If another query
/// or request has begun, it is lost, and the connection becomes unreadable.
static void settle_early(struct connections *connections, uint32_t slot,
                         enum connection_cause cause, uint64_t now_ns) {
    const struct connection *connection = connection_table_at(&connections->table, slot);

    if (has_begun(connection))
        lifetime_make_unreadable(connections, slot, cause, now_ns);
    else
        lifetime_settle(connections, slot, now_ns);
}

static void count_unreadable(struct connections *connections, enum connection_cause cause) {
    connections->counts.unreadable[cause]++;
}

/// Handles the timeout of a connection: settles it if it is in the list Settling, otherwise removes
/// it from the table. In the list Showing its names are counted as unreadable before the removal.
static void time_out(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    switch (connection_table_at(&connections->table, slot)->list) {
    case CONNECTION_SHOWING:
        count_unreadable(connections, CONNECTION_TIMEOUT);
        abandon(connections, slot, now_ns);
        break;
    case CONNECTION_SETTLING:
        settle_early(connections, slot, CONNECTION_TIMEOUT, now_ns);
        break;
    default:
        forget(connections, slot);
    }
}

void lifetime_expire(struct connections *connections, uint64_t now_ns) {
    if (now_ns < connections->expire_ns)
        return;
    connections->expire_ns = now_ns + EXPIRE_NS;
    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        const uint64_t timeout = timeout_ns(connections, lists[i]);

        for (uint32_t looked = 0; looked <= EXPIRE_MAX; looked++) {
            const uint32_t slot = oldest(connections, lists[i]);
            const uint64_t since_ns = connection_table_at(&connections->table, slot)->since_ns;

            if (slot == CONNECTION_SLOT_NONE || now_ns < since_ns || now_ns - since_ns < timeout)
                break;
            if (looked == EXPIRE_MAX) {
                connections->expire_ns = now_ns;
                break;
            }
            time_out(connections, slot, now_ns);
        }
    }
}

/// Returns the list from which a connection is evicted: the first list, in the order of `lists`,
/// that has more than 1/SHARE of the table. So a client that opens many connections does not evict
/// the few known connections.
static enum connection_list list_to_evict(const struct connections *connections) {
    const uint32_t share = connections->table.limit / SHARE;

    // There are fewer than SHARE lists, so in a full table at least one list exceeds 1/SHARE.
    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        if (count_of(connections, lists[i]) > share)
            return lists[i];
    }
    return CONNECTION_OPENING;
}

/// Counts an eviction, and removes the connection.
static void evict(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    connections->counts.evicted[connection_table_at(&connections->table, slot)->list]++;
    abandon(connections, slot, now_ns);
}

/// Returns the connection to evict for a new connection of a client. It is one of the SAMPLE oldest
/// connections of the list to evict from: the one whose client has the most connections. If the new
/// connection's client has at least as many connections, its own oldest connection is evicted
/// instead.
/// - place: index of the new connection's client in the table's `shares`.
static uint32_t slot_to_evict(struct connections *connections, uint32_t place) {
    struct connection_table *table = &connections->table;
    uint32_t slot = oldest(connections, list_to_evict(connections));
    uint32_t found = slot, most = 0, own;

    for (uint32_t i = 0; i < SAMPLE && slot != CONNECTION_SLOT_NONE; i++) {
        const struct connection *connection = connection_table_at(table, slot);
        const uint32_t count = share_count(table, connection->share);

        if (count > most) {
            found = slot;
            most = count;
        }
        slot = connection->newer;
    }
    own = share_count(table, place);
    return own >= most && connection_table_at(table, found)->share != place
               ? share_oldest(table, place)
               : found;
}

/// Evicts a connection if the table is full, to make room for a new connection of a client.
/// - place: index of the client's share (list of connections, see struct connection_share).
static void make_room(struct connections *connections, uint32_t place, uint64_t now_ns) {
    if (connection_table_is_full(&connections->table))
        evict(connections, slot_to_evict(connections, place), now_ns);
}

uint32_t lifetime_add(struct connections *connections, const struct connection_key *key,
                      uint64_t hash, bool client_low, enum connection_list list, uint64_t since_ns,
                      uint64_t now_ns) {
    const uint32_t place = share_place(&connections->table, key, client_low);
    uint32_t slot;

    make_room(connections, place, now_ns);
    slot = connection_table_add(&connections->table, key, hash, list, since_ns);
    connection_table_at(&connections->table, slot)->client_low = client_low;
    share_enter(&connections->table, slot, place);
    return slot;
}

uint32_t lifetime_open(struct connections *connections, const struct connection_key *key,
                       uint64_t hash, bool client_low, enum connection_list list, uint64_t now_ns) {
    struct connection *connection;
    uint32_t slot;

    connections->counts.opened++;
    slot = lifetime_add(connections, key, hash, client_low, list, now_ns, now_ns);
    connection = connection_table_at(&connections->table, slot);
    connection->names.state = NAMES_UNDECIDED;
    return slot;
}

void lifetime_forget_all(struct connections *connections) {
    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        while (count_of(connections, lists[i]) > 0)
            forget(connections, oldest(connections, lists[i]));
    }
}

void lifetime_abandon_all(struct connections *connections, uint64_t now_ns) {
    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        while (count_of(connections, lists[i]) > 0)
            abandon(connections, oldest(connections, lists[i]), now_ns);
    }
}

void lifetime_touch(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    const struct connection *connection = connection_table_at(&connections->table, slot);
    const enum connection_list list = connection->list;
    const bool is_aged = list == CONNECTION_KNOWN || list == CONNECTION_SILENT ||
                         list == CONNECTION_DATAGRAMS || list == CONNECTION_CLOSING;

    if (is_aged && now_ns > connection->since_ns && now_ns - connection->since_ns >= TOUCH_NS)
        connection_table_move_to(&connections->table, slot, list, now_ns);
}

void lifetime_establish(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    if (connection_table_at(&connections->table, slot)->list == CONNECTION_OPENING)
        connection_table_move_to(&connections->table, slot, CONNECTION_SILENT, now_ns);
}

void lifetime_close(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);
    const bool rests = connection->list == CONNECTION_OPENING ||
                       connection->list == CONNECTION_SILENT ||
                       connection->list == CONNECTION_KNOWN;

    connection->closed = true;
    if (rests)
        connection_table_move_to(&connections->table, slot, CONNECTION_CLOSING, now_ns);
}

/// Returns names without content, in the given state, that belong to one packet only.
static struct followed alone(struct connections *connections, enum names_state state) {
    connections->alone.state = state;
    connections->alone.protocol = NAMES_OTHER;
    connections->alone.host_length = 0;
    connections->alone.alpn_length = 0;
    connections->alone.method_length = 0;
    connections->alone.ech = false;
    connections->alone.version = 0;
    connections->alone.dns_type = 0;
    return (struct followed){FOLLOWED_NAMES, CONNECTION_SLOT_NONE};
}

struct followed lifetime_packet_unreadable(struct connections *connections,
                                           enum connection_cause cause) {
    count_unreadable(connections, cause);
    return alone(connections, NAMES_UNREADABLE);
}

struct followed lifetime_packet_undecided(struct connections *connections) {
    return alone(connections, NAMES_UNDECIDED);
}

struct followed lifetime_packet_nameless(struct connections *connections) {
    return alone(connections, NAMES_KNOWN);
}

bool lifetime_is_denied(struct connections *connections, uint32_t slot, uint64_t generation) {
    const struct connection *connection = connection_table_at(&connections->table, slot);

    return connection->evasion || (connection->denied == generation && generation != 0);
}

struct followed lifetime_packet_names(struct connections *connections, uint32_t slot) {
    const bool evasion = connection_table_at(&connections->table, slot)->evasion;

    return (struct followed){evasion ? FOLLOWED_DENIED : FOLLOWED_NAMES, slot};
}

struct followed lifetime_make_unreadable(struct connections *connections, uint32_t slot,
                                         enum connection_cause cause, uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);

    if (connection->names.state != NAMES_UNREADABLE) {
        connection->names = (struct names){.state = NAMES_UNREADABLE};
        connection->cache = (struct connection_cache){0};
        connection->may_retry = false;
        connection->may_switch = false;
        connection->accepted = false;
        connection->closed = true;
        count_unreadable(connections, cause);
        lifetime_settle(connections, slot, now_ns);
    }
    return lifetime_packet_names(connections, slot);
}

struct followed lifetime_deny_evasion(struct connections *connections, uint32_t slot,
                                      uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);

    connection->evasion = true;
    connection->is_reset = false;
    connection->closed = true;
    connections->counts.evasion++;
    lifetime_settle(connections, slot, now_ns);
    return lifetime_packet_names(connections, slot);
}

void lifetime_deny(struct connections *connections, uint32_t slot, uint64_t generation,
                   bool tells) {
    struct connection *connection = connection_table_at(&connections->table, slot);

    connection->is_reset = tells && !connection->is_udp;
    if (connection->denied == generation)
        return;
    connections->counts.denied++;
    connection->denied = generation;
    connection->closed = true;
    if (connection->list != CONNECTION_SETTLING) {
        connection_table_move_to(&connections->table, slot, CONNECTION_CLOSING,
                                 connections->now_ns);
    }
}

void lifetime_decide(struct connections *connections, uint32_t slot, uint32_t decided,
                     uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);

    connection->cache = (struct connection_cache){0};
    connection->stream.decided = decided;
    connections->counts.decided[connection->names.protocol]++;
    connection_table_move_to(&connections->table, slot, CONNECTION_SETTLING, now_ns);
}

void lifetime_start_showing(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    if (connection_table_at(&connections->table, slot)->list != CONNECTION_SHOWING)
        connection_table_move_to(&connections->table, slot, CONNECTION_SHOWING, now_ns);
}

/// Frees memory, but not that of the connection in `slot`: evicts the oldest connection of the list
/// Showing, or else settles the oldest of the list Settling. Returns false if neither list begins
/// with another connection.
static bool reclaim(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    const uint32_t showing = oldest(connections, CONNECTION_SHOWING);
    const uint32_t settling = oldest(connections, CONNECTION_SETTLING);

    if (showing != CONNECTION_SLOT_NONE && showing != slot) {
        evict(connections, showing, now_ns);
        return true;
    }
    if (settling != CONNECTION_SLOT_NONE && settling != slot) {
        settle_early(connections, settling, CONNECTION_POOL, now_ns);
        return true;
    }
    return false;
}

enum stream_put lifetime_store(struct connections *connections, uint32_t slot, uint32_t offset,
                               const uint8_t *bytes, uint32_t length, uint64_t now_ns) {
    for (uint32_t i = 0; i < RECLAIM_MAX; i++) {
        struct stream *stream = &connection_table_at(&connections->table, slot)->stream;
        const enum stream_put put =
            stream_insert(stream, &connections->pool, offset, bytes, length);

        if (put != STREAM_POOL || !reclaim(connections, slot, now_ns))
            return put;
    }
    return STREAM_POOL;
}

struct followed lifetime_refuse(struct connections *connections, uint32_t slot, enum stream_put put,
                                uint64_t now_ns) {
    switch (put) {
    case STREAM_CONFLICT:
        return lifetime_deny_evasion(connections, slot, now_ns);
    case STREAM_GAPS:
        return lifetime_make_unreadable(connections, slot, CONNECTION_GAPS, now_ns);
    case STREAM_LATE:
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, now_ns);
    default:
        return lifetime_make_unreadable(connections, slot, CONNECTION_POOL, now_ns);
    }
}
