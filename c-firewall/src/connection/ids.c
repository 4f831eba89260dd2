// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/ids.h"

#include <string.h>

#include "connection/table.h"

enum {
    WORD_BYTES = 8,
};

/// Returns a connection id in the form of a connection's key, so that both can be hashed in the
/// same way. The first word is the id's length; in a key of addresses and ports this word is
/// larger, because it contains the IP version.
static struct connection_key key_of(const uint8_t *id, uint8_t bytes) {
    struct connection_key key = {{bytes}};

    for (uint8_t i = 0; i < bytes; i++) {
        uint64_t *word = &key.words[1 + i / WORD_BYTES];

        *word = *word << 8 | id[i];
    }
    return key;
}

static struct connection *at(struct connection_table *table, uint32_t slot) {
    return connection_table_at(table, slot);
}

static uint64_t hash_of(const struct connection_table *table, const uint8_t *id, uint8_t bytes) {
    const struct connection_key key = key_of(id, bytes);

    return connection_table_hash(table, &key);
}

/// Returns the index of the bucket of a QUIC connection id.
static uint32_t bucket_of(const struct connection_table *table, const uint8_t *id, uint8_t bytes) {
    return connection_table_bucket(table, hash_of(table, id, bytes));
}

/// Returns true if a connection has this QUIC connection id.
static bool has(const struct connection *connection, const uint8_t *id, uint8_t bytes) {
    return connection->has_id && connection->id_bytes == bytes &&
           memcmp(connection->id, id, bytes) == 0;
}

uint32_t connection_ids_find(const struct connection_table *table, const uint8_t *id,
                             uint8_t bytes) {
    uint32_t slot = table->id_buckets[bucket_of(table, id, bytes)] - 1;

    while (slot < table->used) {
        const struct connection *connection = &table->slots[slot];

        if (has(connection, id, bytes))
            return slot;
        slot = connection->id_chained;
    }
    return CONNECTION_SLOT_NONE;
}

bool connection_ids_is_taken(const struct connection_table *table, const uint8_t *id, uint8_t bytes,
                             uint32_t slot, uint64_t now_ns) {
    const uint32_t owner = connection_ids_find(table, id, bytes);

    if (owner == CONNECTION_SLOT_NONE)
        return connection_table_is_buried(table, hash_of(table, id, bytes), now_ns);
    // Ends whose earlier connection was forgotten may have the same id; they stay unreadable.
    return owner != slot && !(slot < table->used && has(&table->slots[slot], id, bytes));
}

void connection_ids_add(struct connection_table *table, uint32_t slot, const uint8_t *id,
                        uint8_t bytes) {
    uint32_t *first = &table->id_buckets[bucket_of(table, id, bytes)];
    struct connection *connection = at(table, slot);
    uint8_t copy[NAMES_QUIC_CONNECTION_BYTES_MAX] = {0}; // id may point into the connection

    memcpy(copy, id, bytes);
    memcpy(connection->id, copy, sizeof copy);
    connection->id_bytes = bytes;
    connection->has_id = true;
    connection->id_chained = *first - 1;
    *first = slot + 1;
}

void connection_ids_remove(struct connection_table *table, uint32_t slot) {
    struct connection *connection = at(table, slot);
    uint32_t *first, before;

    if (!connection->has_id)
        return;
    connection->has_id = false;
    first = &table->id_buckets[bucket_of(table, connection->id, connection->id_bytes)];
    before = *first - 1;
    if (before == slot) {
        *first = connection->id_chained + 1;
        return;
    }
    while (before != CONNECTION_SLOT_NONE && at(table, before)->id_chained != slot)
        before = at(table, before)->id_chained;
    at(table, before)->id_chained = connection->id_chained;
}

bool connection_ids_hash(struct connection_table *table, uint32_t slot, uint64_t *hash) {
    const struct connection *connection = at(table, slot);

    if (!connection->has_id)
        return false;
    *hash = hash_of(table, connection->id, connection->id_bytes);
    return true;
}

void connection_ids_bury(struct connection_table *table, uint32_t slot, uint64_t now_ns) {
    uint64_t hash = 0;

    if (connection_ids_hash(table, slot, &hash))
        connection_table_bury(table, hash, now_ns);
}
