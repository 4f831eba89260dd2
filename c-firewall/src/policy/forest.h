// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers for the host names of a policy that show which wildcard contains which names.
//
// Theory of operation: the parent of a name in the policy is the nearest wildcard above it: `*.b.c`
// is above `a.b.c`, and `*.c` is above both. So the names form a forest. The names are numbered
// from 1 so that a wildcard's number is directly followed by the numbers of all names below it.
// Thus a wildcard has an interval of numbers, which contains the intervals of all names below it. A
// host name in a packet has the number of the equal name in the policy; otherwise that of the
// nearest wildcard above it; otherwise 0.
#ifndef POLICY_FOREST_H
#define POLICY_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "policy/hostname.h"

// For all functions below, hostnames may be NULL, which means no names.

/// Assigns each name its interval: its own number and the numbers of all names below it. No name
/// may be added afterwards. Returns 0 or -ENOMEM.
int forest_make(struct hostnames *hostnames);

/// Returns the number of a host name in the policy, or else the number of the nearest wildcard
/// above it. Returns 0 if the policy has neither.
/// - name: host name that a client has sent, or that a DNS reply is about, in lower case (ASCII),
///   without a final dot.
uint32_t forest_find(const struct hostnames *hostnames, const uint8_t *name, size_t length);

#endif
