// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/names.h"

#include <stdlib.h>
#include <string.h>

enum {
    IIF = 1,
    OIF = 2,
    FIRST = 3, // the first name's
    ROOM_AT_FIRST = 16,
};

/// 0 = it is not known.
static uint32_t number_of(const struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->known[i], name) == 0)
            return FIRST + (uint32_t)i;
    return 0;
}

uint32_t names_add(const char *name, void *context) {
    struct names *names = context;
    const uint32_t number = number_of(names, name);

    if (number > 0)
        return number;
    if (names->count == names->room) {
        const size_t room = names->room > 0 ? names->room * 2 : ROOM_AT_FIRST;
        void *known = realloc(names->known, room * sizeof *names->known);

        if (!known) {
            names->failed = true;
            return 0;
        }
        names->known = known;
        names->room = room;
    }
    // The language has no longer names.
    strncpy(names->known[names->count], name, OPTION_INTERFACE_BYTES_MAX);
    names->known[names->count][OPTION_INTERFACE_BYTES_MAX] = '\0';
    return FIRST + (uint32_t)names->count++;
}

uint32_t names_iif(const struct names *names, const char *name) {
    const uint32_t number = number_of(names, name);

    if (*name == '\0')
        return 0;
    return number > 0 ? number : IIF;
}

uint32_t names_oif(const struct names *names, const char *name, const char *iif) {
    const uint32_t number = number_of(names, name);

    if (*name == '\0')
        return 0;
    if (number > 0)
        return number;
    return strcmp(name, iif) == 0 ? IIF : OIF;
}

const char *names_name_of(const struct names *names, uint32_t number, const char *iif,
                          const char *oif) {
    if (number == IIF)
        return iif;
    if (number == OIF)
        return oif;
    return number >= FIRST && number - FIRST < names->count ? names->known[number - FIRST] : "";
}

void names_free(struct names *names) {
    free(names->known);
    *names = (struct names){0};
}
