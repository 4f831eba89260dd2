// SPDX-License-Identifier: GPL-2.0-or-later
// Pending DNS queries for addresses. Only an answer to a pending query adds addresses to sets.
//
// Theory of operation: a query is stored as a hash of both ends, the id and the question. The hash
// has a random key, so a sender can't choose the entry that its query replaces. The table has a
// fixed size and never allocates: in a full bucket the oldest entry is replaced.
#ifndef CONNECTION_ASKED_H
#define CONNECTION_ASKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/borders.h"
#include "connection/openers.h"
#include "connection/types.h"
#include "names/answer.h"
#include "packet/packet.h"

enum {
    ASKED_BUCKETS = 512, // number of buckets in the table of pending DNS queries
    ASKED_BUCKET_QUESTIONS = 8,
};

/// A pending DNS query.
struct asked_question {
    uint64_t tag;
    uint64_t end_ns;           // expiry time; 0 means that the entry is unused
    uint32_t client_interface; // interface that the query came from
    // Interface to which the query was sent; CONNECTION_INTERFACE_UNKNOWN if unknown.
    uint32_t server_interface;
};

/// A worker's tables for DNS: pending queries, connections over TCP, and UDP flows.
struct asked {
    struct siphash_key key;
    struct asked_question buckets[ASKED_BUCKETS][ASKED_BUCKET_QUESTIONS];
    // Table of the DNS connections over TCP, with the start of each server's next message.
    struct borders borders;
    struct openers openers; // UDP flows with port 53, by the end that opened them
};

/// Makes empty tables; free them with free. Returns NULL if there is no memory.
struct asked *asked_make(void);

/// Records that the question of a DNS query is pending.
void asked_note(struct asked *asked, const struct packet *packet, const struct answer *query,
                const struct connection_input *input);

/// Removes the question of a DNS answer from the table, if it is pending and the answer's
/// interfaces fit the query's (see direction_answers_query). Returns true if the question was
/// removed.
bool asked_remove(struct asked *asked, const struct packet *packet, const struct answer *answer,
                  const struct connection_input *input);

#endif
