// SPDX-License-Identifier: GPL-2.0-or-later
// What happened beside the way of a packet, or rarely on it, counted for the whole process. Any
// thread may count and read.
#ifndef BASE_COUNTS_H
#define BASE_COUNTS_H

#include <stdint.h>

#include "spec/count.h"

/// Adds to a count.
void counts_add(enum count count, uint64_t amount);

/// A count so far.
uint64_t counts_get(enum count count);

#endif
