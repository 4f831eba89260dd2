// SPDX-License-Identifier: GPL-2.0-or-later
// Interfaces by which IPv4 packets with false source addresses come in: such a packet can be the
// first of a connection, and binds the connection's ends to the wrong interfaces. IPv6 has no such
// filter.
#ifndef STATE_REVERSE_PATH_H
#define STATE_REVERSE_PATH_H

#include <net/if.h>
#include <stdint.h>

enum { REVERSE_PATH_NAMES_MAX = 16 }; // interfaces that are looked at, at most

/// Interfaces that were found.
struct reverse_path {
    uint32_t count;
    char names[REVERSE_PATH_NAMES_MAX][IF_NAMESIZE];
};

/// Finds the interfaces with an IPv4 route whose filter is off or loose: of the interface's value
/// and that of `all` the higher one counts (Documentation/networking/ip-sysctl.rst). None if there
/// is one interface only, by which all addresses are reached.
/// - routes: text of /proc/net/route.
/// - filter: gives the value of an interface, or of `all`; -1: it can't be read.
void reverse_path_find(struct reverse_path *found, const char *routes,
                       int (*filter)(const char *name));

/// Finds the interfaces of this network namespace, as reverse_path_find does. Returns 0, or -errno
/// if the routes can't be read.
int reverse_path_read(struct reverse_path *found);

/// Warns of such interfaces.
void reverse_path_warn(void);

#endif
