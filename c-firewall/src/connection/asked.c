// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/asked.h"

#include <stdlib.h>
#include <string.h>

#include "connection/direction.h"
#include "connection/table.h"

enum {
    HOST_WORDS = (NAMES_HOST_BYTES + 7) / 8,
};

#define WAIT_NS UINT64_C(10000000000) // maximum time that a DNS query stays pending

struct asked *asked_make(void) {
    struct asked *asked = calloc(1, sizeof *asked);

    if (asked) {
        asked->key = siphash_draw();
        borders_make(&asked->borders);
        openers_make(&asked->openers);
    }
    return asked;
}

/// Returns the hash of a question, equal for a query and its answer.
static uint64_t hash(const struct asked *asked, const struct packet *packet,
                     const struct answer *message) {
    uint64_t words[CONNECTION_KEY_WORDS + 1 + HOST_WORDS] = {0};
    const uint32_t host_words = (message->host.length + 7U) / 8;
    struct connection_key key;
    const bool is_low = connection_table_key(packet, &key);
    const uint64_t is_client_low = is_low != message->is_answer;

    memcpy(words, key.words, sizeof key.words);
    words[CONNECTION_KEY_WORDS] = is_client_low << 56 | (uint64_t)message->host.length << 48 |
                                  (uint64_t)message->id << 32 | (uint64_t)message->dns_type << 16 |
                                  message->class;
    memcpy(&words[CONNECTION_KEY_WORDS + 1], message->host.bytes, message->host.length);
    return siphash_words(&asked->key, words, CONNECTION_KEY_WORDS + 1 + host_words);
}

/// Returns the entries of the bucket that a hash belongs to.
static struct asked_question *bucket(struct asked *asked, uint64_t tag) {
    return asked->buckets[tag % ASKED_BUCKETS];
}

void asked_note(struct asked *asked, const struct packet *packet, const struct answer *query,
                const struct connection_input *input) {
    const uint64_t tag = hash(asked, packet, query);
    struct asked_question *all = bucket(asked, tag), *place = all;

    for (int i = 0; i < ASKED_BUCKET_QUESTIONS && place->tag != tag; i++)
        if (all[i].tag == tag || all[i].end_ns < place->end_ns)
            place = &all[i];
    *place = (struct asked_question){
        .tag = tag,
        .end_ns = input->now_ns + WAIT_NS,
        .client_interface = input->source_interface,
        .server_interface = input->sink_interface,
    };
}

bool asked_remove(struct asked *asked, const struct packet *packet, const struct answer *answer,
                  const struct connection_input *input) {
    const uint64_t tag = hash(asked, packet, answer);
    struct asked_question *all = bucket(asked, tag);

    for (int i = 0; i < ASKED_BUCKET_QUESTIONS; i++) {
        if (all[i].tag == tag && all[i].end_ns > input->now_ns &&
            direction_answers_query(all[i].client_interface, all[i].server_interface, input)) {
            all[i].end_ns = 0;
            return true;
        }
    }
    return false;
}
