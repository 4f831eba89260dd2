// SPDX-License-Identifier: GPL-2.0-or-later
#include "lookup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "engine/hostnames.h"
#include "policy/forest.h"

enum {
    NAMES = 1000000,
    // Number of names that are searched in turn: so many that a name's memory has left the
    // processor's caches before the name is searched again.
    ASKED = 1 << 17,
    NAME_BYTES = 40,
    FRONT_BYTES = 4, // length of the labels before a wildcard's parent name
};

/// Name to search, with its length.
struct asked {
    uint8_t length;
    char text[NAME_BYTES];
};

/// Names of a policy, and the names that are searched.
struct lookups {
    struct host_numbers numbers;
    uint32_t next;
    struct asked asked[ASKED];
};

/// Writes a name of the policy. Returns true if the name is a wildcard, whose `*.` is not written.
static bool put_listed(uint32_t index, char *text) {
    const uint32_t scattered = index * CASES_STRIDE;

    switch (index % 8) {
    case 0:
        snprintf(text, NAME_BYTES, "w%08x.example", scattered);
        return true;
    case 4:
        snprintf(text, NAME_BYTES, "w%08x.cdn.example", scattered);
        return true;
    default:
        snprintf(text, NAME_BYTES, "n%08x.s%02x.example", scattered, index % 251);
        return false;
    }
}

/// Writes a name to search: a quarter of these names is in the policy, a quarter matches a wildcard
/// of the policy, half is not in the policy.
static void put_asked(uint32_t count, char *text) {
    const uint32_t index = count * CASES_STRIDE % NAMES;

    switch (count % 4) {
    case 0:
        put_listed(index | 1, text);
        break;
    case 1:
        memcpy(text, "a.b.", FRONT_BYTES);
        put_listed(index & ~3U, text + FRONT_BYTES);
        break;
    default:
        snprintf(text, NAME_BYTES, "m%08x.s%02x.example", index * CASES_STRIDE, index % 251);
        break;
    }
}

struct lookups *lookups_make(void) {
    struct lookups *lookups = calloc(1, sizeof *lookups);
    struct hostnames *hostnames = hostname_make();
    char text[FRONT_BYTES + NAME_BYTES];
    uint32_t id;

    for (uint32_t i = 0; i < NAMES; i++) {
        const bool wildcard = put_listed(i, text);

        if (hostname_add(hostnames, (const uint8_t *)text, strlen(text), wildcard, &id) < 0)
            abort();
    }
    if (forest_make(hostnames) < 0)
        abort();
    hostnames_make(&lookups->numbers, hostnames);
    hostname_free(hostnames);
    for (uint32_t i = 0; i < ASKED; i++) {
        put_asked(i, text);
        lookups->asked[i].length = (uint8_t)strlen(text);
        memcpy(lookups->asked[i].text, text, strlen(text));
    }
    return lookups;
}

void lookups_free(struct lookups *lookups) {
    hostnames_free(&lookups->numbers);
    free(lookups);
}

uint32_t lookups_round(struct lookups *lookups) {
    uint32_t found = 0;

    for (uint32_t i = 0; i < CASES_PACKETS; i++) {
        const struct asked *asked = &lookups->asked[lookups->next + i];

        found += hostnames_find(&lookups->numbers, (const uint8_t *)asked->text, asked->length) > 0;
    }
    lookups->next = (lookups->next + CASES_PACKETS) % ASKED;
    return found;
}
