// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers for the names of a policy by which one lies in another.
//
// Theory of operation: a name of the policy lies in the nearest wildcard above it, so the names are
// a forest. They are numbered from 1 so that a wildcard's number comes before those of all that lie
// in it, which follow it without a gap: a wildcard is an interval of numbers, and what is below it
// an interval or a number within. A client's name has the number of the policy's name that it is,
// else that of the nearest wildcard above it, else 0.
#ifndef POLICY_FOREST_H
#define POLICY_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "policy/hostname.h"

// hostnames may be NULL: none.

/// Numbers all names. No more come then. Returns 0 or -ENOMEM.
int forest_make(struct hostnames *hostnames);

/// The number of a client's name; 0 = the policy has neither it nor a wildcard above it.
/// - name: in lower case (ASCII), without a dot at its end.
uint32_t forest_find(const struct hostnames *hostnames, const uint8_t *name, size_t length);

#endif
