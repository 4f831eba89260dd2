// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers for the names of a policy, by which one name contains another.
//
// Theory of operation: a name of the policy belongs to the nearest wildcard above it, so the names
// form a forest. They are numbered from 1, so that a wildcard's number is directly followed by the
// numbers of all names that belong to it. Thus a wildcard is an interval of numbers, and each name
// below it is an interval or a number within. The number of a client's name is that of the equal
// name in the policy; otherwise that of the nearest wildcard above it; otherwise 0.
#ifndef POLICY_FOREST_H
#define POLICY_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "policy/hostname.h"

// hostnames may be NULL, which means no names.

/// Numbers all names. No name may be added afterwards. Returns 0 or -ENOMEM.
int forest_make(struct hostnames *hostnames);

/// Returns the number of a client's name; 0 = the policy has neither the name nor a wildcard above
/// it.
/// - name: in lower case (ASCII), without a final dot.
uint32_t forest_find(const struct hostnames *hostnames, const uint8_t *name, size_t length);

#endif
