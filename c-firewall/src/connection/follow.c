// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/follow.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>

#include "connection/bound.h"
#include "connection/lifetime.h"
#include "connection/opening.h"
#include "connection/pool.h"
#include "connection/queries.h"
#include "connection/requests.h"
#include "connection/segment.h"
#include "connection/table.h"
#include "connection/tcp.h"
#include "connection/udp.h"

int connection_make(struct connections *connections, const struct connection_settings *settings) {
    int result;

    *connections = (struct connections){
        .settings = *settings,
        .gathered = calloc(1, NAMES_HELLO_BYTES_MAX),
        .scratch = calloc(1, NAMES_HELLO_BYTES_MAX),
        .plain = calloc(1, NAMES_HELLO_BYTES_MAX),
    };
    result = connections->gathered && connections->scratch && connections->plain ? 0 : -ENOMEM;
    if (result == 0)
        result = connection_table_make(&connections->table, settings->connections);
    if (result == 0)
        result = connection_pool_make(&connections->pool, settings->hello_bytes);
    if (result == 0)
        result = names_quic_make(&connections->opener);
    if (result < 0)
        connection_free(connections);
    return result;
}

void connection_free(struct connections *connections) {
    names_quic_free(&connections->opener);
    connection_pool_free(&connections->pool);
    connection_table_free(&connections->table);
    free(connections->gathered);
    free(connections->scratch);
    free(connections->plain);
    *connections = (struct connections){0};
}

/// Returns true if a packet is TCP or UDP, or if its protocol is unknown.
static bool has_names(const struct packet *packet) {
    const uint8_t protocol = packet->protocol;

    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || packet->headers_beyond ||
           (packet->version == 6 && packet_is_extension(protocol));
}

struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input) {
    struct followed followed;

    connections->now_ns = input->now_ns;
    connections->queries.slot = CONNECTION_SLOT_NONE;
    lifetime_expire(connections, input->now_ns);
    if (!has_names(packet))
        return (struct followed){FOLLOWED_NONE, CONNECTION_SLOT_NONE};
    if (packet->fragment)
        return lifetime_packet_unreadable(connections, CONNECTION_FRAGMENT);
    if (!packet->has_ports)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    followed = packet->protocol == IPPROTO_TCP ? connection_tcp_follow(connections, packet, input)
                                               : connection_udp_follow(connections, packet, input);
    return bound_pass(connections, packet, followed);
}

bool connection_next(struct connections *connections) {
    const uint32_t slot = connections->queries.slot;

    return connection_table_at(&connections->table, slot)->is_dns
               ? queries_next(connections, connections->now_ns)
               : requests_next(connections, connections->now_ns);
}

const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed) {
    const struct connection_table *table = &connections->table;

    return followed->slot < table->used ? &table->slots[followed->slot].names : &connections->alone;
}

struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed) {
    struct connection_table *table = &connections->table;

    return followed->slot < table->used ? &table->slots[followed->slot].cache : NULL;
}

void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation, bool tells) {
    if (followed->slot != CONNECTION_SLOT_NONE)
        lifetime_deny(connections, followed->slot, generation, tells);
}

bool connection_can_reset(const struct connections *connections, const struct followed *followed) {
    const struct connection_table *table = &connections->table;

    return followed->slot < table->used && !table->slots[followed->slot].is_udp;
}

bool connection_is_reset(const struct connections *connections, const struct followed *followed) {
    const struct connection_table *table = &connections->table;

    return followed->slot < table->used && table->slots[followed->slot].is_reset;
}

bool connection_expected(const struct connections *connections, const struct followed *followed,
                         const struct packet *packet, uint32_t *expected) {
    const struct connection_table *table = &connections->table;
    const struct connection *connection =
        followed->slot < table->used ? &table->slots[followed->slot] : NULL;
    struct connection_key key;

    if (!connection || !connection->confirmed)
        return false;
    if (connection_table_key(packet, &key) != connection->client_low)
        return segment_sequence(packet, expected);
    *expected = connection->stream.base + connection->stream.acked;
    return true;
}

bool connection_refuse(struct connections *connections, const struct packet *packet,
                       uint64_t generation, uint32_t *expected) {
    struct connection_key key;
    const bool is_low = connection_table_key(packet, &key);
    const uint64_t hash = connection_table_hash(&connections->table, &key);
    const uint32_t slot = connection_table_find(&connections->table, &key, hash);
    const struct connection *connection = connection_table_at(&connections->table, slot);

    if (slot == CONNECTION_SLOT_NONE || connection->is_udp)
        return false;
    lifetime_deny(connections, slot, generation, true);
    *expected = is_low == connection->client_low
                    ? connection->server_end
                    : connection->stream.base + connection->stream.acked;
    return connection->confirmed;
}

bool connection_is_settled(const struct connections *connections, const struct followed *followed) {
    const struct connection_table *table = &connections->table;
    const struct connection *connection =
        followed->slot < table->used ? &table->slots[followed->slot] : NULL;

    return connection && !connection->is_udp && !connection->is_dns && !connection->evasion &&
           connection->names.protocol != NAMES_DNS && connection->names.protocol != NAMES_HTTP &&
           opening_is_finished(connection);
}

bool connection_is_answer(const struct connections *connections, const struct followed *followed) {
    const struct connection_table *table = &connections->table;
    const struct connection *connection =
        followed->slot < table->used ? &table->slots[followed->slot] : NULL;

    return connection && connection->accepted && !connection->evasion &&
           connections->is_low != connection->client_low;
}

bool connection_decides(const struct connections *connections, const struct followed *followed,
                        const struct packet *packet) {
    const struct connection_table *table = &connections->table;
    const struct connection *connection =
        followed->slot < table->used ? &table->slots[followed->slot] : NULL;

    if (followed->kind != FOLLOWED_NAMES || packet->fragment)
        return false;
    if (packet->protocol == IPPROTO_UDP)
        return connection_udp_decides(packet);
    if (!connection)
        return connections->alone.state == NAMES_UNDECIDED;
    return connection->names.state != NAMES_UNREADABLE &&
           connections->is_low == connection->client_low &&
           !connection_is_settled(connections, followed);
}

uint32_t connection_count(const struct connections *connections) {
    uint32_t count = 0;

    for (uint32_t list = 0; list < CONNECTION_LIST_COUNT; list++)
        count += connections->table.lists[list].count;
    return count;
}

struct connection_counts connection_counts(const struct connections *connections) {
    struct connection_counts counts = connections->counts;

    for (uint32_t list = 0; list < CONNECTION_LIST_COUNT; list++)
        counts.now[list] = connections->table.lists[list].count;
    return counts;
}
