// SPDX-License-Identifier: GPL-2.0-or-later
// Detection of interfaces that accept IPv4 packets with false source addresses, because the reverse
// path filter (rp_filter) is off or loose. Such a packet can begin a connection, whose ends are
// then expected at the wrong interfaces. The kernel has no such filter for IPv6.
#ifndef STATE_REVERSE_PATH_H
#define STATE_REVERSE_PATH_H

#include <net/if.h>
#include <stdint.h>

enum { REVERSE_PATH_NAMES_MAX = 16 }; // maximum number of interfaces that are reported

/// Interfaces whose filter (rp_filter) is off or loose.
struct reverse_path {
    uint32_t count;
    char names[REVERSE_PATH_NAMES_MAX][IF_NAMESIZE];
};

/// Finds the interfaces with an IPv4 route whose rp_filter is off or loose. The higher of the
/// interface's value and the value of `all` is in effect (Documentation/networking/ip-sysctl.rst).
/// Finds none if there is only one interface, because all addresses are reachable through it.
/// - routes: text of /proc/net/route.
/// - filter: returns the value of an interface, or of `all`; -1 if it can't be read: then the
///   interface is not reported, and `all` counts as strict.
void reverse_path_find(struct reverse_path *found, const char *routes,
                       int (*filter)(const char *name));

/// Finds the interfaces of this network namespace that reverse_path_find reports. Returns 0, or
/// -errno if the routes can't be read.
int reverse_path_read(struct reverse_path *found);

/// Logs a warning that names the interfaces with a filter that is off or loose, if there are any.
void reverse_path_warn(void);

#endif
