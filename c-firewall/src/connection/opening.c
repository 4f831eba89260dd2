// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/opening.h"

#include "connection/direction.h"
#include "connection/lifetime.h"
#include "connection/share.h"
#include "connection/stream.h"
#include "connection/table.h"

enum {
    DNS_PORT = 53, // port of DNS servers
    // Maximum distance in bytes by which a server's segment may begin after the server's latest
    // byte: segments may be reordered.
    AHEAD_MAX = 1 << 20,
};

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

/// Returns the sequence number of the first byte after a SYN.
static uint32_t first_of(const struct segment *segment) { return segment->sequence + 1; }

uint32_t opening_begin(struct connections *connections, const struct segment *segment) {
    const uint64_t now_ns = segment->now_ns;
    const bool is_buried = connection_table_is_buried(&connections->table, segment->hash, now_ns);
    const uint32_t slot = lifetime_open(connections, &segment->key, segment->hash, segment->is_low,
                                        CONNECTION_OPENING, now_ns);
    struct connection *connection = at(connections, slot);

    connection->is_dns = segment->destination_port == DNS_PORT;
    connection->begun = first_of(segment);
    connection->stream.base = connection->begun;
    direction_bind(connection, &segment->input);
    if (is_buried)
        lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, now_ns);
    return slot;
}

/// Returns true if a SYN repeats the first SYN of its connection, which the server has not answered
/// yet.
static bool is_first_again(const struct connection *connection, const struct segment *segment) {
    return !connection->confirmed && segment_is_clients(segment, connection) &&
           first_of(segment) == connection->begun &&
           !direction_is_foreign(connection, segment->is_low, &segment->input);
}

/// Returns true if a SYN may belong to another connection. It may if it comes from the client, or
/// if the old connection is over for both ends, so that they may change their roles. Before that, a
/// client whose SYN was not answered yet answers the server's SYN itself (RFC 9293, section 3.5,
/// figure 7), and the server's packets alone do not show that the client's SYN was answered.
static bool may_begin(const struct connection *connection, const struct segment *segment) {
    return segment_is_clients(segment, connection) ||
           (connection->closed && opening_is_finished(connection));
}

/// Returns true if a SYN with ACK answers the pending SYN.
static bool answers_pending(const struct connection *connection, const struct segment *segment) {
    return connection->pending && segment->is_low != connection->pending_low &&
           segment->acknowledged == connection->pending_base &&
           direction_answers_pending(connection, &segment->input) &&
           !(connection->confirmed && first_of(segment) == connection->server_begun);
}

bool opening_restarts(const struct connection *connection, const struct segment *segment) {
    if ((segment->flags & (SEGMENT_SYN | SEGMENT_ACK)) == SEGMENT_SYN)
        return !is_first_again(connection, segment) && segment_is_clients(segment, connection);
    return (segment->flags & SEGMENT_SYN) && answers_pending(connection, segment);
}

bool opening_begin_again(struct connections *connections, uint32_t slot,
                         const struct segment *segment, struct followed *followed) {
    struct connection *connection = at(connections, slot);

    if (is_first_again(connection, segment))
        return false;
    if (!may_begin(connection, segment)) {
        connection->crossed |= !connection->confirmed;
        *followed = lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
        return true;
    }
    direction_bind_pending(connection, &segment->input);
    connection->pending = true;
    connection->pending_low = segment->is_low;
    connection->pending_base = first_of(segment);
    *followed = segment->length == 0
                    ? lifetime_packet_undecided(connections)
                    : lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    return true;
}

bool opening_is_finished(const struct connection *connection) {
    return connection->names.state == NAMES_KNOWN && !connection->may_retry &&
           connection->stream.acked >= connection->stream.decided;
}

/// Confirms a connection, and records the server's sequence numbers, from its SYN with ACK.
static void confirm(struct connection *connection, const struct segment *segment) {
    connection->confirmed = true;
    connection->server_begun = first_of(segment);
    connection->server_end = connection->server_begun + segment->length;
}

/// Replaces a connection by the connection of the pending SYN, which the server has answered.
static struct followed replace(struct connections *connections, uint32_t slot,
                               const struct segment *segment) {
    struct connection *connection = at(connections, slot);

    stream_release(&connection->stream, &connections->pool);
    share_leave(&connections->table, slot);
    connection->opened_ns = segment->now_ns;
    connection->begun = connection->pending_base;
    connection->stream = stream_make(connection->begun);
    connection->is_dns = segment->source_port == DNS_PORT;
    connection->client_low = connection->pending_low;
    direction_confirm_pending(connection, &segment->input);
    confirm(connection, segment);
    connection->pending = false;
    connection->client_passed = 0;
    connection->server_passed = 0;
    connection->closed = false;
    connection->evasion = false;
    connection->denied = 0;
    connection->is_reset = false;
    connection->may_retry = false;
    connection->may_switch = false;
    connection->syn_data = false;
    connection->crossed = false;
    connection->cache = (struct connection_cache){0};
    connection->names = (struct names){.state = NAMES_UNDECIDED};
    connection->progress = (struct names_progress){0};
    share_enter(&connections->table, slot,
                share_place(&connections->table, &segment->key, connection->client_low));
    connections->counts.opened++;
    connection_table_move_to(&connections->table, slot, CONNECTION_OPENING, segment->now_ns);
    return lifetime_packet_names(connections, slot);
}

struct followed opening_answer(struct connections *connections, uint32_t slot,
                               const struct segment *segment) {
    struct connection *connection = at(connections, slot);
    const uint32_t distance = segment->acknowledged - connection->begun;
    const bool is_ours = distance == 0 || distance <= stream_prefix(&connection->stream);

    // Both ends have sent a SYN, so either may be the client.
    if (connection->crossed && !segment_is_clients(segment, connection))
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
    if (answers_pending(connection, segment))
        return replace(connections, slot, segment);
    if (segment_is_clients(segment, connection))
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    if (direction_is_foreign(connection, segment->is_low, &segment->input))
        return lifetime_packet_unreadable(connections, CONNECTION_INTERFACE);
    if (is_ours && !connection->confirmed) {
        confirm(connection, segment);
        direction_bind_server(connection, &segment->input);
        return lifetime_packet_names(connections, slot);
    }
    if (is_ours && first_of(segment) == connection->server_begun)
        return lifetime_packet_names(connections, slot);
    // While a SYN is pending, the server may have answered an earlier SYN, and the client may
    // continue that connection.
    if (opening_is_finished(connection) && !connection->pending)
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
}

bool opening_hear(struct connection *connection, const struct segment *segment) {
    const uint64_t offset = segment->sequence - connection->server_begun;
    const uint64_t seen = connection->server_end - connection->server_begun;
    const uint64_t end = offset + segment->length + (segment->flags & SEGMENT_FIN);

    if (!connection->confirmed || offset > seen + AHEAD_MAX)
        return false;
    if (end > seen)
        connection->server_end =
            connection->server_begun + (uint32_t)(end < UINT32_MAX ? end : UINT32_MAX);
    return true;
}

bool opening_is_acknowledging(const struct connection *connection, const struct segment *segment) {
    const uint32_t acknowledged = segment->acknowledged - connection->server_begun;
    const uint32_t seen = connection->server_end - connection->server_begun;

    return (segment->flags & SEGMENT_ACK) && acknowledged <= seen;
}
