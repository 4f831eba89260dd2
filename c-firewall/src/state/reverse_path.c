// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/reverse_path.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/// Value of rp_filter for a strict filter (RFC 3704, section 2.2): a packet's source address must
/// be reachable through the interface at which it arrives.
enum { STRICT = 1 };

/// Returns the value of rp_filter for an interface, or for `all`; -1 if it can't be read.
static int rp_filter(const char *name) {
    char path[64 + IF_NAMESIZE];
    FILE *file;
    int digit;

    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/rp_filter", name);
    file = fopen(path, "re");
    if (!file)
        return -1;
    digit = fgetc(file);
    fclose(file);
    return digit >= '0' && digit <= '9' ? digit - '0' : -1;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

/// Adds a name to a tree of names (search.h). Returns true if the tree lacked it.
static bool is_new(void **known, const char *name) {
    char *copy = strdup(name);
    char *const *node = copy ? tsearch(copy, known, compare_names) : NULL;
    const bool added = node && *node == copy;

    if (!added)
        free(copy);
    return added;
}

void reverse_path_find(struct reverse_path *found, const char *routes,
                       int (*filter)(const char *name)) {
    int all = filter("all");
    uint32_t interfaces = 0;
    void *known = NULL;

    if (all < 0)
        all = STRICT;
    *found = (struct reverse_path){0};
    for (const char *line = strchr(routes, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        const size_t length = strcspn(line + 1, "\t\n");
        char name[IF_NAMESIZE] = "";
        int own;

        if (length >= sizeof name)
            continue;
        memcpy(name, line + 1, length);
        if (strcmp(name, "lo") == 0 || !is_new(&known, name))
            continue;
        interfaces++;
        own = found->count < REVERSE_PATH_NAMES_MAX ? filter(name) : -1;
        if (own >= 0 && (own > all ? own : all) != STRICT)
            memcpy(found->names[found->count++], name, sizeof name);
    }
    tdestroy(known, free);
    if (interfaces == 1)
        found->count = 0;
}

int reverse_path_read(struct reverse_path *found) {
    FILE *file = fopen("/proc/net/route", "re");
    char *routes = NULL;
    size_t room = 0;
    int result = 0;

    if (!file)
        return -errno;
    if (getdelim(&routes, &room, '\0', file) < 0)
        result = -EIO;
    else
        reverse_path_find(found, routes, rp_filter);
    free(routes);
    fclose(file);
    return result;
}

void reverse_path_warn(void) {
    char names[REVERSE_PATH_NAMES_MAX * (IF_NAMESIZE + 2)] = "";
    struct reverse_path found = {0};
    size_t length = 0;

    if (reverse_path_read(&found) < 0 || found.count == 0)
        return;
    for (uint32_t i = 0; i < found.count; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   i == 0 ? "" : ", ", found.names[i]);
    log_warn("IPv4 packets with false source addresses come in by %s: rp_filter is off or loose "
             "there, and IPv6 has none: see `fwctl doctor`",
             names);
}
