// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/tracked.h"

#include <stddef.h>

enum tracked tracked_look(struct tracked_watch *watch, uint32_t generation, bool asks,
                          uint64_t decided, uint64_t without) {
    if (watch->generation != generation)
        *watch = (struct tracked_watch){
            .generation = generation, .decided = decided, .without = without};
    if (!asks || watch->tracked == TRACKED_SEEN)
        return watch->tracked;
    // Packets count as without a state before they count as answered.
    if (decided - watch->decided > without - watch->without)
        watch->tracked = TRACKED_SEEN;
    else if (without - watch->without >= TRACKED_PACKETS_LEAST)
        watch->tracked = TRACKED_MISSING;
    return watch->tracked;
}

const char *tracked_name(enum tracked tracked) {
    switch (tracked) {
    case TRACKED_SEEN:
        return "seen";
    case TRACKED_MISSING:
        return "missing";
    case TRACKED_UNKNOWN:
        break;
    }
    return NULL;
}
