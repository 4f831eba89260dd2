// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/listing.h"

#include <string.h>

/// Returns the state of a connection for the policy of a generation.
static enum listed_state state_of(const struct connection *connection, uint64_t generation) {
    if (connection->evasion || (connection->denied == generation && generation != 0))
        return LISTED_DENIED;
    switch (connection->names.state) {
    case NAMES_KNOWN:
        return connection->names.host_length > 0 ? LISTED_NAMED : LISTED_MISSING;
    case NAMES_UNREADABLE:
        return LISTED_UNKNOWN;
    default:
        return LISTED_UNDECIDED;
    }
}

void listing_fill(const struct connections *connections, uint64_t generation, uint64_t now_ns,
                  struct listing_page *page) {
    static const struct names none;
    const struct connection_table *table = &connections->table;
    const uint32_t left = table->used > page->from ? table->used - page->from : 0;
    const uint32_t end = page->from + (left < LISTING_LOOKED_MAX ? left : LISTING_LOOKED_MAX);
    uint32_t slot = page->from;

    page->count = 0;
    while (slot < end && page->count < LISTING_LISTED_MAX) {
        const struct connection *connection = &table->slots[slot++];
        const enum listed_state state = state_of(connection, generation);
        // Incomplete names are not listed.
        const struct names *names =
            connection->names.state == NAMES_KNOWN ? &connection->names : &none;
        struct listed *listed = &page->listed[page->count];

        // In a free slot the key is 0: it has no protocol.
        if (connection->key.words[0] == 0 || (page->undecided && state != LISTED_UNDECIDED))
            continue;
        *listed = (struct listed){
            .key = connection->key,
            .is_udp = connection->is_udp,
            .client_low = connection->client_low,
            .state = state,
            .protocol = names->protocol,
            .host_length = names->host_length,
            .age_ns = now_ns > connection->opened_ns ? now_ns - connection->opened_ns : 0,
        };
        memcpy(listed->host, names->host, sizeof listed->host);
        page->count++;
    }
    page->next = slot < table->used ? slot : CONNECTION_SLOT_NONE;
}
