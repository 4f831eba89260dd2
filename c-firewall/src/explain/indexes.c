// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/indexes.h"

#include <stdlib.h>
#include <string.h>

enum {
    IIF = 1,
    OIF = 2,
    FIRST = 3, // index number of the first interface name in the policy
    ROOM_AT_FIRST = 16,
};

/// Returns the index number of an interface name in the policy; 0 if the policy does not have the
/// name.
static uint32_t number_of(const struct indexes *indexes, const char *name) {
    for (size_t i = 0; i < indexes->count; i++)
        if (strcmp(indexes->known[i], name) == 0)
            return FIRST + (uint32_t)i;
    return 0;
}

uint32_t indexes_add(const char *name, void *context) {
    struct indexes *indexes = context;
    const uint32_t number = number_of(indexes, name);

    if (number > 0)
        return number;
    if (indexes->count == indexes->room) {
        const size_t room = indexes->room > 0 ? indexes->room * 2 : ROOM_AT_FIRST;
        void *known = realloc(indexes->known, room * sizeof *indexes->known);

        if (!known) {
            indexes->failed = true;
            return 0;
        }
        indexes->known = known;
        indexes->room = room;
    }
    // A name in a policy has at most OPTION_INTERFACE_BYTES_MAX bytes.
    strncpy(indexes->known[indexes->count], name, OPTION_INTERFACE_BYTES_MAX);
    indexes->known[indexes->count][OPTION_INTERFACE_BYTES_MAX] = '\0';
    return FIRST + (uint32_t)indexes->count++;
}

uint32_t indexes_iif(const struct indexes *indexes, const char *name) {
    const uint32_t number = number_of(indexes, name);

    if (*name == '\0')
        return 0;
    return number > 0 ? number : IIF;
}

uint32_t indexes_oif(const struct indexes *indexes, const char *name, const char *iif) {
    const uint32_t number = number_of(indexes, name);

    if (*name == '\0')
        return 0;
    if (number > 0)
        return number;
    return strcmp(name, iif) == 0 ? IIF : OIF;
}

const char *indexes_name_of(const struct indexes *indexes, uint32_t number, const char *iif,
                            const char *oif) {
    if (number == IIF)
        return iif;
    if (number == OIF)
        return oif;
    return number >= FIRST && number - FIRST < indexes->count ? indexes->known[number - FIRST] : "";
}

void indexes_free(struct indexes *indexes) {
    free(indexes->known);
    *indexes = (struct indexes){0};
}
