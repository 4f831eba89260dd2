// SPDX-License-Identifier: GPL-2.0-or-later
// Questions for addresses that wait for their answer. An answer that nobody asked for says nothing.
//
// Theory of operation: what is kept of a question is a hash by a key that is drawn once, of both
// ends, the id and the question, so that who sends packets can't choose whose place is taken. The
// table has a fixed size and never allocates: where a bucket is full, the oldest makes room.
#ifndef CONNECTION_ASKED_H
#define CONNECTION_ASKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/borders.h"
#include "connection/types.h"
#include "names/answer.h"
#include "packet/packet.h"

enum {
    ASKED_BUCKETS = 512, // of questions that wait
    ASKED_BUCKET_QUESTIONS = 8,
};

/// A question.
struct asked_question {
    uint64_t tag;
    uint64_t end_ns;           // when it is over; 0 = there is none
    uint32_t client_interface; // where it came from
    uint32_t server_interface; // and went to
};

/// The questions of a worker.
struct asked {
    struct siphash_key key;
    struct asked_question buckets[ASKED_BUCKETS][ASKED_BUCKET_QUESTIONS];
    struct borders borders; // of answers over TCP
};

/// Makes room for questions; to be freed with free. NULL if there is no memory.
struct asked *asked_make(void);

/// Notes the question of a query.
void asked_note(struct asked *asked, const struct packet *packet, const struct answer *query,
                const struct connection_input *input);

/// Removes the question of an answer. Returns whether it was waiting.
bool asked_take(struct asked *asked, const struct packet *packet, const struct answer *answer,
                const struct connection_input *input);

#endif
