// SPDX-License-Identifier: GPL-2.0-or-later
// Counts of the whole process, for events outside the packet path, and for rare events on it. Any
// thread may count and read.
#ifndef BASE_COUNTS_H
#define BASE_COUNTS_H

#include <stdint.h>

#include "spec/count.h"

/// Adds to a count, which all threads share.
void counts_add(enum count count, uint64_t amount);

/// Returns the value of a count, which all threads share.
uint64_t counts_get(enum count count);

#endif
