// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/follow.h"

#include <stddef.h>

int connection_make(struct connections *connections, const struct connection_settings *settings) {
    *connections = (struct connections){.settings = *settings};
    return 0;
}

void connection_free(struct connections *connections) { *connections = (struct connections){0}; }

struct followed connection_follow(struct connections *connections, const struct packet *packet,
                                  const struct connection_input *input) {
    (void)connections;
    (void)packet;
    (void)input;
    return (struct followed){FOLLOWED_NONE, CONNECTION_SLOT_NONE};
}

const struct names *connection_names(const struct connections *connections,
                                     const struct followed *followed) {
    (void)followed;
    return &connections->alone;
}

struct connection_cache *connection_cache(struct connections *connections,
                                          const struct followed *followed) {
    (void)connections;
    (void)followed;
    return NULL;
}

void connection_deny(struct connections *connections, const struct followed *followed,
                     uint64_t generation) {
    (void)connections;
    (void)followed;
    (void)generation;
}

const struct connection_counts *connection_counts(const struct connections *connections) {
    return &connections->counts;
}
