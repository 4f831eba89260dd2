// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/forest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    LABELS_MAX = NAMES_HOST_BYTES / 2 + 2, // maximum number of labels of a name, plus one
};

static uint32_t labels_of(const uint8_t *name, size_t length) {
    uint32_t labels = 1;

    for (size_t i = 0; i < length; i++)
        labels += name[i] == '.';
    return labels;
}

/// Returns the nearest wildcard above a name, as the end of its record (an offset in
/// hostnames->records); 0 = there is no such wildcard.
static uint32_t above(const struct hostnames *hostnames, const uint8_t *name, size_t length) {
    // Offsets in name of the parent domains that have as many labels as some wildcard.
    uint8_t starts[LABELS_MAX];
    uint32_t count = 0, labels = 1, place = 0;

    for (size_t at = length; at-- > 0 && labels < LABELS_MAX;) {
        if (name[at] != '.')
            continue;
        if (hostnames->depths >> labels & 1)
            starts[count++] = (uint8_t)(at + 1);
        labels++;
    }
    while (place == 0 && count-- > 0)
        place = hostname_search(hostnames, name + starts[count], length - starts[count], true);
    return place;
}

/// Stores the names (their numbers in hostnames) in `sorted`, by the number of their labels, fewest
/// first.
static void by_labels(const struct hostnames *hostnames, uint32_t *sorted) {
    uint32_t starts[LABELS_MAX + 2] = {0};
    size_t length;
    bool wildcard;

    for (uint32_t id = 0; id < hostname_count(hostnames); id++) {
        const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);

        starts[labels_of(name, length) + 1]++;
    }
    for (uint32_t i = 1; i < LABELS_MAX + 2; i++)
        starts[i] += starts[i - 1];
    for (uint32_t id = 0; id < hostname_count(hostnames); id++) {
        const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);

        sorted[starts[labels_of(name, length)]++] = id;
    }
}

/// Counts, for each name, the name itself and all names below it. Stores this count in the
/// interval's `last`.
static void add_sizes(const uint32_t *sorted, uint32_t count, const uint32_t *parents,
                      struct host_interval *intervals) {
    for (uint32_t i = count; i-- > 0;) {
        const uint32_t id = sorted[i], parent = parents[id];
        const uint32_t size = ++intervals[id].last;

        if (parent != HOSTNAME_NONE)
            intervals[parent].last += size;
    }
}

/// Assigns each name its interval. Names with more labels come later in `sorted`, so a name's
/// parent already has its interval.
/// - room: scratch array: the next free number in each name's interval.
static void number(const uint32_t *sorted, uint32_t count, const uint32_t *parents,
                   struct host_interval *intervals, uint32_t *room) {
    uint32_t next = 1;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = sorted[i], parent = parents[id];
        const uint32_t size = intervals[id].last;
        uint32_t *place = parent != HOSTNAME_NONE ? &room[parent] : &next;
        const uint32_t own = *place;

        *place += size;
        intervals[id] = (struct host_interval){own, own + size - 1};
        room[id] = own + 1;
    }
}

/// Records which numbers of labels the wildcards have (hostnames->depths), and stores the
/// parent of each name.
static void find_parents(struct hostnames *hostnames, uint32_t *parents) {
    const uint32_t count = hostname_count(hostnames);
    size_t length;
    bool wildcard;

    for (uint32_t id = 0; id < count; id++) {
        const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);

        hostnames->depths |= (unsigned __int128)wildcard << (labels_of(name, length) & 127);
    }
    for (uint32_t id = 0; id < count; id++) {
        const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);
        const uint32_t place = above(hostnames, name, length);

        parents[id] = place > 0 ? hostname_id_at(hostnames, place) : HOSTNAME_NONE;
    }
}

int forest_make(struct hostnames *hostnames) {
    const uint32_t count = hostname_count(hostnames);
    uint32_t *sorted = malloc((3ULL * count + 1) * sizeof *sorted);
    struct host_interval *intervals = calloc(count + 1ULL, sizeof *intervals);
    const bool has_memory = sorted && intervals;

    if (has_memory && count > 0) {
        find_parents(hostnames, &sorted[count]);
        by_labels(hostnames, sorted);
        add_sizes(sorted, count, &sorted[count], intervals);
        number(sorted, count, &sorted[count], intervals, &sorted[2 * (size_t)count]);
        for (uint32_t id = 0; id < count; id++)
            hostname_set_interval(hostnames, id, intervals[id]);
    }
    free(sorted);
    free(intervals);
    return has_memory ? 0 : -ENOMEM;
}

uint32_t forest_find(const struct hostnames *hostnames, const uint8_t *name, size_t length) {
    uint32_t place = hostname_search(hostnames, name, length, false);

    if (place == 0 && hostname_count(hostnames) > 0)
        place = above(hostnames, name, length);
    return place > 0 ? hostname_interval_at(hostnames, place).own : 0;
}
