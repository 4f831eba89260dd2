// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/borders.h"

#include <stddef.h>
#include <string.h>

#include "connection/direction.h"
#include "connection/table.h"

// Time for which an entry is valid after the client's SYN, the server's SYN-ACK, and each message
// of the server.
#define WAIT_NS UINT64_C(120000000000)

void borders_make(struct borders *borders) { borders->key = siphash_draw(); }

/// Returns the hash of a packet's connection.
/// - is_servers: true if the packet comes from the server.
static uint64_t hash(const struct borders *borders, const struct packet *packet, bool is_servers) {
    uint64_t words[CONNECTION_KEY_WORDS + 1];
    struct connection_key key;
    const bool is_low = connection_table_key(packet, &key);

    memcpy(words, key.words, sizeof key.words);
    words[CONNECTION_KEY_WORDS] = is_low == is_servers;
    return siphash_words(&borders->key, words, CONNECTION_KEY_WORDS + 1);
}

/// Returns the entries of the bucket that a hash belongs to.
static struct border *bucket(struct borders *borders, uint64_t tag) {
    return borders->buckets[tag % BORDERS_BUCKETS];
}

/// Returns the table entry of the DNS connection to which a server's packet belongs. Returns NULL
/// if there is no valid entry, or if the packet's interfaces are not those of the connection.
static struct border *find(struct borders *borders, const struct packet *packet,
                           const struct connection_input *input) {
    const uint64_t tag = hash(borders, packet, true);
    struct border *all = bucket(borders, tag);

    for (int i = 0; i < BORDERS_BUCKET_BORDERS; i++) {
        if (all[i].tag == tag && all[i].end_ns > input->now_ns &&
            direction_answers(all[i].client_interface, all[i].server_interface, input))
            return &all[i];
    }
    return NULL;
}

void borders_begin(struct borders *borders, const struct packet *packet,
                   const struct connection_input *input) {
    const uint64_t tag = hash(borders, packet, false);
    struct border *all = bucket(borders, tag), *place = all;

    for (int i = 0; i < BORDERS_BUCKET_BORDERS && place->tag != tag; i++)
        if (all[i].tag == tag || all[i].end_ns < place->end_ns)
            place = &all[i];
    *place = (struct border){
        .tag = tag,
        .end_ns = input->now_ns + WAIT_NS,
        .client_interface = input->source_interface,
        .server_interface = input->sink_interface,
    };
}

void borders_set(struct borders *borders, const struct packet *packet,
                 const struct connection_input *input, uint32_t next) {
    struct border *border = find(borders, packet, input);

    if (!border)
        return;
    if (border->server_interface == CONNECTION_INTERFACE_UNKNOWN)
        border->server_interface = input->source_interface;
    border->end_ns = input->now_ns + WAIT_NS;
    border->is_known = true;
    border->next = next;
}

bool borders_next(struct borders *borders, const struct packet *packet,
                  const struct connection_input *input, uint32_t *next) {
    const struct border *border = find(borders, packet, input);

    if (!border || !border->is_known)
        return false;
    *next = border->next;
    return true;
}
