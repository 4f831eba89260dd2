// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/named.h"

#include "engine/hostnames.h"

const struct policy_reject named_rst = {.kind = POLICY_REJECT_TCP_RESET};

/// Finds the numbers of a connection's names in the policy. The connection caches them for one
/// generation.
static struct named resolve(struct connections *connections, const struct compiled *compiled,
                            struct followed followed, uint64_t generation) {
    struct connection_cache *cache = connection_cache(connections, &followed);
    struct named named = {
        .followed = followed,
        .is_new = !cache || cache->generation != generation,
    };

    if (!named.is_new) {
        named.host_number = cache->host_number;
        named.alpn_bits = cache->alpn_bits;
        return named;
    }
    hostnames_resolve(&compiled->hosts, connection_names(connections, &followed),
                      &named.host_number, &named.alpn_bits);
    if (cache)
        *cache = (struct connection_cache){.generation = generation,
                                           .host_number = named.host_number,
                                           .alpn_bits = named.alpn_bits};
    return named;
}

struct named named_follow(struct connections *connections, const struct compiled *compiled,
                          const struct packet *packet, const struct connection_input *how) {
    const struct followed followed = connection_follow(connections, packet, how);

    return resolve(connections, compiled, followed, how->generation);
}

bool named_next(struct connections *connections, const struct compiled *compiled,
                uint64_t generation, struct named *named) {
    if (!connection_next(connections))
        return false;
    *named = resolve(connections, compiled, named->followed, generation);
    return true;
}

void named_tell(const struct named *named, const struct names *names, struct decide_input *input) {
    switch (named->followed.kind) {
    case FOLLOWED_NONE:
        return;
    case FOLLOWED_NAMES:
        input->names = names;
        input->host_number = named->host_number;
        input->alpn_bits = named->alpn_bits;
        return;
    case FOLLOWED_DENIED:
        input->refused = true;
        return;
    }
}

bool named_refuses(const struct named *named, const struct decide_outcome *outcome) {
    return named->is_new && outcome->read_names && !outcome->undecided &&
           outcome->verdict != VERDICT_ACCEPT;
}

bool named_reset(const struct connections *connections, const struct named *named,
                 const struct packet *packet, struct decide_outcome *outcome, uint32_t *expected) {
    const struct followed *followed = &named->followed;
    const bool is_new = named_refuses(named, outcome);

    if (is_new ? outcome->verdict != VERDICT_REJECT || !connection_can_reset(connections, followed)
               : followed->kind != FOLLOWED_DENIED || !connection_is_reset(connections, followed))
        return false;
    outcome->verdict = VERDICT_REJECT;
    outcome->reject = named_rst;
    return is_new && connection_expected(connections, followed, packet, expected);
}

void named_results(const struct connections *connections, uint64_t results[NAMED_RESULT_COUNT]) {
    const struct connection_counts counts = connection_counts(connections);
    size_t last = 0;

    results[last++] = counts.opened;
    for (int i = 0; i < CONNECTION_PROTOCOL_COUNT; i++)
        results[last++] = counts.decided[i];
    results[last++] = counts.denied;
    results[last++] = counts.evasion;
    results[last] = 0;
    for (int i = 0; i < CONNECTION_CAUSE_COUNT; i++)
        results[last] += counts.unreadable[i];
    results[++last] = 0;
    for (int i = 0; i < CONNECTION_LIST_COUNT; i++)
        results[last] += counts.evicted[i];
}
