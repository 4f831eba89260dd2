// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/table.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connection/stream.h"

enum {
    IPV4_WORDS = 2, // number of words of a key with IPv4 addresses; the other words are 0
    // Time in seconds for which a forgotten connection is recorded: its server may keep the
    // client's bytes that long.
    GRAVE_SECONDS = 120,
    SECOND_NS = 1000000000,
};

int connection_table_make(struct connection_table *table, uint32_t connections) {
    uint64_t buckets = 1;

    while (buckets < (uint64_t)connections * 2)
        buckets *= 2;
    *table = (struct connection_table){
        .key = siphash_draw(),
        .mask = (uint32_t)(buckets - 1),
        .buckets = calloc(buckets, sizeof *table->buckets),
        .id_buckets = calloc(buckets, sizeof *table->id_buckets),
        .graves = calloc(buckets, sizeof *table->graves),
        .shares = calloc(buckets, sizeof *table->shares),
        .slots = malloc(connections * sizeof *table->slots),
        .limit = connections,
        .free = CONNECTION_SLOT_NONE,
    };
    for (uint32_t list = 0; list < CONNECTION_LIST_COUNT; list++) {
        table->lists[list] =
            (struct connection_times){CONNECTION_SLOT_NONE, CONNECTION_SLOT_NONE, 0};
    }
    if (table->buckets && table->id_buckets && table->graves && table->shares && table->slots)
        return 0;
    connection_table_free(table);
    return -ENOMEM;
}

void connection_table_free(struct connection_table *table) {
    free(table->buckets);
    free(table->id_buckets);
    free(table->graves);
    free(table->shares);
    free(table->slots);
    *table = (struct connection_table){0};
}

/// Returns an address of 4 or 16 bytes in network byte order as a number.
static unsigned __int128 number(const uint8_t *address, uint32_t bytes) {
    uint64_t high, low;
    uint32_t word;

    if (bytes == sizeof word) {
        memcpy(&word, address, sizeof word);
        return be32toh(word);
    }
    memcpy(&high, address, sizeof high);
    memcpy(&low, address + sizeof high, sizeof low);
    return (unsigned __int128)be64toh(high) << 64 | be64toh(low);
}

bool connection_table_key(const struct packet *packet, struct connection_key *key) {
    const uint32_t size = packet_address_bytes(packet);
    const uint8_t *addresses = packet_addresses(packet);
    const unsigned __int128 source = number(addresses, size);
    const unsigned __int128 destination = number(addresses + size, size);
    const uint16_t source_port = packet->source_port, destination_port = packet->destination_port;
    const bool is_low =
        source < destination || (source == destination && source_port <= destination_port);
    const unsigned __int128 low = is_low ? source : destination;
    const unsigned __int128 high = is_low ? destination : source;
    const uint16_t low_port = is_low ? source_port : destination_port;
    const uint16_t high_port = is_low ? destination_port : source_port;

    *key = (struct connection_key){{(uint64_t)low_port << 48 | (uint64_t)high_port << 32 |
                                    (uint64_t)packet->version << 8 | packet->protocol}};
    if (packet->version == 4) {
        key->words[1] = (uint64_t)(low << 32 | high);
        return is_low;
    }
    key->words[1] = (uint64_t)(low >> 64);
    key->words[2] = (uint64_t)low;
    key->words[3] = (uint64_t)(high >> 64);
    key->words[4] = (uint64_t)high;
    return is_low;
}

void connection_table_end(const struct packet *packet, bool is_source,
                          uint64_t words[CONNECTION_END_WORDS]) {
    const uint32_t size = packet_address_bytes(packet);
    const uint8_t *addresses = packet_addresses(packet);
    const unsigned __int128 address = number(is_source ? addresses : addresses + size, size);
    const uint16_t port = is_source ? packet->source_port : packet->destination_port;

    words[0] = (uint64_t)port << 32 | (uint64_t)packet->version << 8 | packet->protocol;
    words[1] = (uint64_t)(address >> 64);
    words[2] = (uint64_t)address;
}

uint64_t connection_table_hash(const struct connection_table *table,
                               const struct connection_key *key) {
    const bool is_ipv4 = key->words[2] == 0 && key->words[3] == 0 && key->words[4] == 0;

    return siphash_words(&table->key, key->words, is_ipv4 ? IPV4_WORDS : CONNECTION_KEY_WORDS);
}

uint32_t connection_table_bucket(const struct connection_table *table, uint64_t hash) {
    return (uint32_t)hash & table->mask;
}

uint32_t connection_table_tag(uint64_t hash) { return (uint32_t)(hash >> 32); }

struct connection *connection_table_at(struct connection_table *table, uint32_t slot) {
    return slot < table->used ? &table->slots[slot] : &table->spare;
}

uint32_t connection_table_find(const struct connection_table *table,
                               const struct connection_key *key, uint64_t hash) {
    uint32_t slot = table->buckets[connection_table_bucket(table, hash)] - 1;

    while (slot < table->used) {
        const struct connection *connection = &table->slots[slot];

        if (memcmp(&connection->key, key, sizeof *key) == 0)
            return slot;
        slot = connection->chained;
    }
    return CONNECTION_SLOT_NONE;
}

void connection_table_warm(struct connection_table *table, uint32_t connections) {
    memset(table->slots, 0,
           (connections < table->limit ? connections : table->limit) * sizeof *table->slots);
}

bool connection_table_is_full(const struct connection_table *table) {
    return table->free == CONNECTION_SLOT_NONE && table->used >= table->limit;
}

/// Appends a connection to a list.
static void append(struct connection_table *table, uint32_t slot, enum connection_list list,
                   uint64_t now_ns) {
    struct connection_times *head = &table->lists[list];
    struct connection *connection = connection_table_at(table, slot);
    const uint32_t before = head->newest;

    head->newest = slot;
    head->count++;
    if (before == CONNECTION_SLOT_NONE)
        head->oldest = slot;
    else
        connection_table_at(table, before)->newer = slot;
    connection->list = list;
    connection->since_ns = now_ns;
    connection->older = before;
    connection->newer = CONNECTION_SLOT_NONE;
}

/// Removes a connection from its list.
static void unlink(struct connection_table *table, uint32_t slot) {
    const struct connection *connection = connection_table_at(table, slot);
    struct connection_times *head = &table->lists[connection->list];
    const uint32_t older = connection->older, newer = connection->newer;

    if (older != CONNECTION_SLOT_NONE)
        connection_table_at(table, older)->newer = newer;
    if (newer != CONNECTION_SLOT_NONE)
        connection_table_at(table, newer)->older = older;
    head->count--;
    if (older == CONNECTION_SLOT_NONE)
        head->oldest = newer;
    if (newer == CONNECTION_SLOT_NONE)
        head->newest = older;
}

uint32_t connection_table_add(struct connection_table *table, const struct connection_key *key,
                              uint64_t hash, enum connection_list list, uint64_t now_ns) {
    const uint32_t bucket = connection_table_bucket(table, hash);
    uint32_t *first = &table->buckets[bucket];
    uint32_t slot = table->free;
    struct connection *connection;

    if (slot != CONNECTION_SLOT_NONE)
        table->free = connection_table_at(table, slot)->chained;
    else if (table->used < table->limit)
        slot = table->used++;
    else
        return CONNECTION_SLOT_NONE;
    connection = connection_table_at(table, slot);
    *connection = (struct connection){.key = *key,
                                      .bucket = bucket,
                                      .chained = *first - 1,
                                      .opened_ns = now_ns,
                                      .stream = stream_make(0)};
    *first = slot + 1;
    append(table, slot, list, now_ns);
    return slot;
}

void connection_table_move_to(struct connection_table *table, uint32_t slot,
                              enum connection_list list, uint64_t now_ns) {
    unlink(table, slot);
    append(table, slot, list, now_ns);
}

void connection_table_remove(struct connection_table *table, uint32_t slot) {
    struct connection *connection = connection_table_at(table, slot);
    uint32_t *first = &table->buckets[connection->bucket];
    uint32_t before = *first - 1;

    unlink(table, slot);
    if (before == slot) {
        *first = connection->chained + 1;
    } else {
        while (before != CONNECTION_SLOT_NONE &&
               connection_table_at(table, before)->chained != slot)
            before = connection_table_at(table, before)->chained;
        connection_table_at(table, before)->chained = connection->chained;
    }
    connection->chained = table->free;
    connection->key = (struct connection_key){0};
    table->free = slot;
}

/// Returns a time in whole seconds, plus 1, because 0 means no record in `graves`.
static uint32_t second_of(uint64_t now_ns) { return (uint32_t)(now_ns / SECOND_NS) + 1; }

static bool is_fresh(const struct connection_grave *grave, uint32_t second) {
    return grave->second != 0 && second - grave->second < GRAVE_SECONDS;
}

/// Records at an index of `graves` that a connection was forgotten.
static void dig(struct connection_table *table, uint32_t place, uint32_t tag, uint32_t second) {
    struct connection_grave *grave = &table->graves[place];
    // If another forgotten connection has the same index, the tag becomes 0, which matches any
    // connection.
    const bool is_shared = is_fresh(grave, second) && grave->tag != tag;

    *grave = (struct connection_grave){is_shared ? 0 : tag, second};
}

void connection_table_bury(struct connection_table *table, uint64_t hash, uint64_t now_ns) {
    dig(table, connection_table_bucket(table, hash), connection_table_tag(hash), second_of(now_ns));
}

bool connection_table_grave_age(const struct connection_table *table, uint32_t place,
                                uint64_t now_ns, uint32_t *age) {
    const struct connection_grave *grave = &table->graves[place];
    const uint32_t second = second_of(now_ns);

    *age = second - grave->second;
    return is_fresh(grave, second);
}

bool connection_table_bury_told(struct connection_table *table, uint32_t mask, uint32_t place,
                                uint32_t tag, uint32_t age, uint64_t now_ns) {
    const uint32_t now = second_of(now_ns);

    if ((mask & (mask + 1U)) != 0 || place > mask || age >= GRAVE_SECONDS)
        return false;
    for (uint64_t at = place & table->mask; at <= table->mask; at += (uint64_t)mask + 1)
        dig(table, (uint32_t)at, tag, now > age ? now - age : 1);
    return true;
}

bool connection_table_is_buried(const struct connection_table *table, uint64_t hash,
                                uint64_t now_ns) {
    const struct connection_grave *grave = &table->graves[connection_table_bucket(table, hash)];

    return is_fresh(grave, second_of(now_ns)) &&
           (grave->tag == 0 || grave->tag == connection_table_tag(hash));
}
