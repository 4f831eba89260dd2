// SPDX-License-Identifier: GPL-2.0-or-later
// What `explain --json` prints. Written by hand: the keys have an order, and times have decimals.
#ifndef EXPLAIN_JSON_H
#define EXPLAIN_JSON_H

#include <stdio.h>

#include "explain/types.h"

/// Prints the packet at hand, as one line of JSON.
void explain_json_packet(FILE *out, const struct explain *explain);

/// Prints what stands at the end, as one line of JSON.
void explain_json_end(FILE *out, const struct explain *explain);

#endif
