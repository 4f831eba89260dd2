// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/share.h"

#include "base/siphash.h"
#include "connection/table.h"

enum {
    IPV4 = 4,
};

uint32_t share_place(const struct connection_table *table, const struct connection_key *key,
                     bool client_low) {
    uint64_t address = client_low ? key->words[1] : key->words[3];

    if ((key->words[0] >> 8 & 0xff) == IPV4)
        address = client_low ? key->words[1] >> 32 : key->words[1] & 0xffffffff;
    return (uint32_t)siphash_words(&table->key, &address, 1) & table->mask;
}

uint32_t share_count(const struct connection_table *table, uint32_t place) {
    return table->shares[place].count;
}

uint32_t share_oldest(const struct connection_table *table, uint32_t place) {
    return table->shares[place].oldest - 1;
}

void share_enter(struct connection_table *table, uint32_t slot, uint32_t place) {
    struct connection *connection = connection_table_at(table, slot);
    struct connection_share *share = &table->shares[place];
    const uint32_t before = share->newest - 1;

    share->count++;
    share->newest = slot + 1;
    if (before == CONNECTION_SLOT_NONE)
        share->oldest = slot + 1;
    else
        connection_table_at(table, before)->share_newer = slot;
    connection->share = place;
    connection->share_older = before;
    connection->share_newer = CONNECTION_SLOT_NONE;
}

void share_leave(struct connection_table *table, uint32_t slot) {
    const struct connection *connection = connection_table_at(table, slot);
    struct connection_share *share = &table->shares[connection->share];
    const uint32_t older = connection->share_older, newer = connection->share_newer;

    if (older != CONNECTION_SLOT_NONE)
        connection_table_at(table, older)->share_newer = newer;
    if (newer != CONNECTION_SLOT_NONE)
        connection_table_at(table, newer)->share_older = older;
    share->count--;
    if (older == CONNECTION_SLOT_NONE)
        share->oldest = newer + 1;
    if (newer == CONNECTION_SLOT_NONE)
        share->newest = older + 1;
}
