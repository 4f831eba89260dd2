// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/hostnames.h"

#include <errno.h>
#include <stdlib.h>

#include "policy/forest.h"
#include "policy/value.h"

enum {
    PROTOCOLS_MAX = 32, // maximum number of ALPN protocols in a policy; each has a bit
};

void hostnames_make(struct host_numbers *numbers, struct hostnames *hostnames) {
    *numbers = (struct host_numbers){.hostnames = hostname_share(hostnames)};
}

void hostnames_free(struct host_numbers *numbers) {
    hostname_free(numbers->hostnames);
    free(numbers->protocols);
    *numbers = (struct host_numbers){0};
}

struct policy_range hostnames_interval(const struct host_numbers *numbers, uint32_t id) {
    const struct host_interval interval = hostname_interval(numbers->hostnames, id);

    return (struct policy_range){interval.own, interval.last};
}

uint32_t hostnames_find(const struct host_numbers *numbers, const uint8_t *name, size_t length) {
    return forest_find(numbers->hostnames, name, length);
}

int hostnames_add_protocol(struct host_numbers *numbers, policy_value protocol, uint32_t *mask) {
    uint32_t bit = 0;

    while (bit < numbers->protocol_count && numbers->protocols[bit] != protocol)
        bit++;
    if (bit == PROTOCOLS_MAX)
        return -ENOSPC;
    if (!numbers->protocols)
        numbers->protocols = calloc(PROTOCOLS_MAX, sizeof *numbers->protocols);
    if (!numbers->protocols)
        return -ENOMEM;
    if (bit == numbers->protocol_count)
        numbers->protocols[numbers->protocol_count++] = protocol;
    *mask |= 1U << bit;
    return 0;
}

/// Returns the bits of the policy's ALPN protocols that a client offers.
static uint32_t offered(const struct host_numbers *numbers, const struct names *names) {
    const uint8_t *at = names->alpn, *end = at + names->alpn_length;
    uint32_t bits = 0;

    while (at < end) {
        const size_t length = *at++;
        policy_value offer;

        if (length > (size_t)(end - at))
            break;
        offer = value_short(at, length);
        for (uint32_t i = 0; length <= VALUE_SHORT_BYTES && i < numbers->protocol_count; i++)
            if (numbers->protocols[i] == offer)
                bits |= 1U << i;
        at += length;
    }
    return bits;
}

void hostnames_resolve(const struct host_numbers *numbers, const struct names *names,
                       uint32_t *host_number, uint32_t *alpn_bits) {
    *host_number = 0;
    *alpn_bits = 0;
    if (names->state != NAMES_KNOWN)
        return;
    if (names->host_length > 0)
        *host_number = hostnames_find(numbers, names->host, names->host_length);
    *alpn_bits = offered(numbers, names);
}

/// Pieces into which nested intervals have been split so far.
struct parting {
    struct lookup_range *pieces;
    uint32_t count;
};

/// Adds a piece of an interval, unless it is empty. Extends the previous piece instead if the new
/// piece continues it with the same value.
static void add_piece(struct parting *parting, policy_value low, policy_value high,
                      uint32_t value) {
    struct lookup_range *last = parting->pieces + parting->count - 1;

    if (low > high)
        return;
    if (parting->count > 0 && last->value == value && last->high + 1 == low)
        last->high = high;
    else
        parting->pieces[parting->count++] = (struct lookup_range){low, high, value};
}

static int compare_ranges(const void *left, const void *right) {
    const struct lookup_range *a = left, *b = right;

    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high > b->high ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

int hostnames_part(struct lookup_range **ranges, uint32_t *count) {
    // An interval is cut where another interval begins or ends within it.
    struct lookup_range *pieces = malloc((2ULL * *count + 1) * sizeof *pieces);
    struct lookup_range *open = malloc((*count + 1ULL) * sizeof *open);
    struct parting parting = {.pieces = pieces};
    uint32_t depth = 0;
    policy_value at = 0;

    if (!pieces || !open) {
        free(pieces);
        free(open);
        return -ENOMEM;
    }
    if (*count > 0)
        qsort(*ranges, *count, sizeof **ranges, compare_ranges);
    for (uint32_t i = 0; i < *count; i++) {
        const struct lookup_range *range = &(*ranges)[i];

        while (depth > 0 && open[depth - 1].high < range->low) {
            const struct lookup_range *top = &open[--depth];

            add_piece(&parting, at, top->high, top->value);
            at = top->high + 1 > at ? top->high + 1 : at;
        }
        if (depth > 0 && at < range->low)
            add_piece(&parting, at, range->low - 1, open[depth - 1].value);
        at = range->low;
        open[depth++] = *range;
    }
    while (depth > 0) {
        const struct lookup_range *top = &open[--depth];

        add_piece(&parting, at, top->high, top->value);
        at = top->high + 1 > at ? top->high + 1 : at;
    }
    free(open);
    free(*ranges);
    *ranges = pieces;
    *count = parting.count;
    return 0;
}
